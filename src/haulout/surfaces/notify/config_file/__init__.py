"""The parts of the configuration file: how values are read, the rules beyond their types, and the schema."""
