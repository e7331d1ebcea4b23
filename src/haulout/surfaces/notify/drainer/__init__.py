"""The drainer: it empties the node of a started maintenance, and reports how far that is."""
