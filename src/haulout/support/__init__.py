"""The support archive of `haulout bundle`: collects its content, and leaves out what may be confidential."""
