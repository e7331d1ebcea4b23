"""Haulout takes Kubernetes nodes out of service and puts them back."""

__version__ = "0.1.0"
