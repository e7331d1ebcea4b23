"""The clusterapi surface (sapcc's runtime extension): it carries signals between Machines and their Nodes."""
