"""haulout.yaml, environment and flags: what a process is started with."""
