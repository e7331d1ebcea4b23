"""Draining nodes: which pods go, in which order, at the pace of their budgets, and why a pod is still on its node."""
