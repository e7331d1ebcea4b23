"""The demo: the operator at work on an embedded cluster, as a picture."""
