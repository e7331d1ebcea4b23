"""The same decisions on a virtual clock: what will happen when."""
