"""`haulout demo` and `haulout cluster`: the operator on an embedded cluster as a live picture, or the cluster alone."""
