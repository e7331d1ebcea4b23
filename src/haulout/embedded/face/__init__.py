"""The API server as its clients see it: requests and responses, over HTTPS or within this process."""
