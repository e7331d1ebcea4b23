"""What a cluster needs to run Haulout, as data: definitions, rights, webhook registrations."""
