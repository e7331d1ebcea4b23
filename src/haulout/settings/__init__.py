"""The settings of a process, from `haulout.yaml`, environment variables and flags."""
