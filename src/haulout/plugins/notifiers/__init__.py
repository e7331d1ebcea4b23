"""The built-in notifiers, one file each."""
