"""Settings, the composition root and the entry point."""
