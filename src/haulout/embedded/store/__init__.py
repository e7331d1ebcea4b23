"""The API server without HTTP: objects, their kinds, and how they are created, changed and deleted."""
