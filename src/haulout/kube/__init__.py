"""Talking to an API server: configuration, credentials, transport, list and watch, writes, leases, events."""
