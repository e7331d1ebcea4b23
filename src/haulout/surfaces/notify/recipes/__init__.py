"""Recipes, by which runner and validator carry out their steps: attempts, Jobs, hooks, and whose turn it is."""
