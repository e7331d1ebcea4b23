"""Profiles: drop-in for sapcc/maintenance-controller."""
