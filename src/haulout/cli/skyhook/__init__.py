"""`haulout as skyhook`: the command line of the Skyhook operator, with its outputs, prompts and exit codes."""
