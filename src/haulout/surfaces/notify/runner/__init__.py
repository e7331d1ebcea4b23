"""The runner: it does the maintenance of a drained node by a recipe."""
