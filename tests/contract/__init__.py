"""One suite of requests for two servers: the embedded cluster has to answer them as a real API server does."""
