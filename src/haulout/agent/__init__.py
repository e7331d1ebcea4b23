"""The package agent: a short process that runs a package's steps, or an interrupt, on one host.

It uses Python's standard library alone and imports nothing else of Haulout, so that it starts quickly and stays small.
"""
