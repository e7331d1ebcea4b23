"""The labels and the annotation of ESX maintenance on Nodes, and the values of the state label."""

from __future__ import annotations

NAME = "esx"
REPORTER = "esx-maintenance"
HOST_LABEL = "kubernetes.cloud.sap/host"
ZONE_LABEL = "failure-domain.beta.kubernetes.io/zone"
VERSION_LABEL = "cloud.sap/esx-version"
STATE_LABEL = "cloud.sap/esx-in-maintenance"
OK_LABEL = "cloud.sap/esx-reboot-ok"
INITIATED_ANNOTATION = "cloud.sap/esx-reboot-initiated"
# When that was, so that the logbook can tell two maintenances of one node apart. The original does not note it.
INITIATED_AT = "haulout.dev/esx-initiated-at"
WORKING, IN_MAINTENANCE, ALARM = "false", "true", "alarm"
