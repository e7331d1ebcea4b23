"""The kubernikus surface: replacement of the servers of Kubernikus clusters."""
