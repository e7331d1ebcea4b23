"""Nodes that a person drains by a command: what is wanted stands in a row of configuration, nothing on the objects."""
