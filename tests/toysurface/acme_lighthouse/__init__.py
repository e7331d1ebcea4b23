"""A surface of another package: a Beacon lights the node that it names."""
