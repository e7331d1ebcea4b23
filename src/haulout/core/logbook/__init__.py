"""The logbook: a MaintenanceRecord for each claim that has begun on a node (K23)."""
