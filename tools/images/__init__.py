"""Builds the container images without a container engine: `python -m tools.images`. See decision 0190."""
