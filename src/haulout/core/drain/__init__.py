"""Draining nodes: which pods go, in which order, at the pace of their budgets, and why one is still there."""
