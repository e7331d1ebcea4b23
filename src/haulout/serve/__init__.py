"""HTTP servers: probes, metrics, and what people and other programs look at."""
