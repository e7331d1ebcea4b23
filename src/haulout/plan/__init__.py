"""`haulout plan`: runs the operator's own decisions on an embedded cluster and a virtual clock, as a forecast."""
