"""`haulout drain` and `haulout uncordon`: commands by which people act once, without an operator."""
