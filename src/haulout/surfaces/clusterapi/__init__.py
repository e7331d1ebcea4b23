"""Cluster API (sapcc's runtime extension): carries signals between Machines and the Nodes of their clusters."""
