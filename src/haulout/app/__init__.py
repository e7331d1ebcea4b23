"""The composition root and the entry point: puts surfaces, kernel, watches and servers together."""
