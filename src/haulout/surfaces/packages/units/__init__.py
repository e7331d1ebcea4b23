"""Units: the objects of one name in both groups, which of them leads, and how the lead changes."""
