"""The embedded cluster: a Kubernetes-shaped world in memory, on an injected clock."""
