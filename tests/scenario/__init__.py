"""The product on the embedded cluster, in virtual time."""
