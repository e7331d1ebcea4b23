"""One pass over one node, in stages: enter, notify, judge and move, each from a result to a result."""
