"""The nodemaintenance surface (medik8s): one object keeps one node out of service for as long as it exists."""
