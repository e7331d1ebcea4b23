"""What Acme adds to Haulout's profiles: one file each."""
