"""The command line: one file for each command, imported only when the command is used."""
