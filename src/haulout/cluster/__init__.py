"""The fleet in memory: rows, tables and the questions that decisions may ask of them."""
