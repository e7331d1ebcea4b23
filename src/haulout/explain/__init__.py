"""From a picture of the cluster to the reasons for what waits, as text and JSON."""
