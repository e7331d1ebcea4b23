"""Kubernikus: replacement of the servers of Kubernikus clusters."""
