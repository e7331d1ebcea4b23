"""Plain values: no Kubernetes, no I/O."""
