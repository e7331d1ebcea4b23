"""NodeMaintenanceSets: maintenances of many nodes, of which a few are made at a time."""
