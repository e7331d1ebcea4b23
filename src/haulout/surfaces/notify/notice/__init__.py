"""The state machine of the original: the decision about one NotifyMaintenance, its states, status, deadline and messages."""
