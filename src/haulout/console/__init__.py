"""`haulout console`: the web console, a process of its own that reads the cluster and writes nothing for itself."""
