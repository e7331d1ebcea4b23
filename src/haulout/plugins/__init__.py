"""Checks, triggers and notifiers: one file each, found without registration."""
