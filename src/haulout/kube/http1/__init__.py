"""HTTP/1.1 as a client: answers as they arrive, connections, and how they are opened (decision 0185)."""
