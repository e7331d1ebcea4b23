"""The profiles surface: the drop-in for sapcc/maintenance-controller."""
