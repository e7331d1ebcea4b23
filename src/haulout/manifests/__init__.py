"""The objects that a cluster needs to run Haulout, as data: roles and webhook configurations, and writing YAML."""
