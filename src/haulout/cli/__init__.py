"""The command line: lazy command groups, one file each."""
