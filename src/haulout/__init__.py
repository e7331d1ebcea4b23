"""Haulout takes Kubernetes nodes out of service and puts them back."""

__version__ = "0.1.0"
# Of what it was made, and when: set when an image (tools.images) or a release (tools.release) is built.
COMMIT = "unknown"
BUILT = "unknown"
