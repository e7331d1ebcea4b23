"""The maintenance APIs that Haulout serves, one folder each, with the same file names in each."""
