"""The stages of a pass over one node: enter, notify, settle, judge and move. Each takes a result and returns one."""
