"""NodeDisruptionBudgets: how many nodes may be out of service at once, where and when, over all surfaces."""
