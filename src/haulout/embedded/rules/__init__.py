"""The rules of the API server for each kind: defaults, checks and the words of its refusals."""
