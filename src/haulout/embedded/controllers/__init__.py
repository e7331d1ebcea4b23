"""Simulated actors: scheduler, workload controllers, kubelets and what else keeps a cluster moving."""
