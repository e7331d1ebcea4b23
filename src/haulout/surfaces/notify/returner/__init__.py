"""The returner: it deletes validated maintenances, and uncordons their nodes."""
