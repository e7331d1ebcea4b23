"""NodeMaintenance (medik8s): one object takes one node out of service for as long as it exists."""
