"""HTTP servers: probes, metrics, admission webhooks and their certificates, and pages for people."""
