"""The end of an installation: what surfaces have left in a cluster is removed with a person's credential."""
