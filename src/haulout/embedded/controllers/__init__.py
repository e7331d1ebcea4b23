"""The simulated control plane beside the API server: scheduler, workload controllers, garbage collectors, kubelets."""
