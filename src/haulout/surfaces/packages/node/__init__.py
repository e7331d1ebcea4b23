"""One node: the decision about it, the visits of the Skyhooks that select it, and the state that shows on it."""
