"""One suite of requests for two servers: the embedded cluster is honest as far as its answers are those of the real one."""
