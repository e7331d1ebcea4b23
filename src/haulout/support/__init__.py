"""The support archive: what is collected, and what is left out of it."""
