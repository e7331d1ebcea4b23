"""Frozen partial structs of the Kubernetes objects that we read."""
