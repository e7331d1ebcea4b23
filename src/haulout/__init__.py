"""Haulout takes Kubernetes nodes out of service and puts them back."""

__version__ = "0.1.0"
# Of what it was made, and when: set when an image is built (deploy/Dockerfile).
COMMIT = "unknown"
BUILT = "unknown"
