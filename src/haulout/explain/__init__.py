"""`explain`, `status`, `wait` and `history`: why nodes wait, as text and JSON, from one reading of the cluster."""
