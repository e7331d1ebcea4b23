"""The kernel: which decision runs when, and what becomes of its actions. It does no I/O and asks no clock."""
