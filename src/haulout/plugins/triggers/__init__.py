"""The built-in triggers, one file each."""
