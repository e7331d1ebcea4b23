"""What the API server fills in and refuses, kind by kind."""
