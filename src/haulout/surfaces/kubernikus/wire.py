"""The labels of Kubernikus maintenance on Nodes, its probe, and its message to OpenStack."""

from __future__ import annotations

import msgspec

NAME = "kubernikus"
REPORTER = "kubernikus-maintenance"
UPDATE_LABEL = "cloud.sap/kubelet-needs-update"
DELETE_LABEL = "cloud.sap/delete-node"
# When a deletion has begun, so that the logbook can tell two of one node apart: the label may be removed and set again.
BEGUN_AT = "haulout.dev/deletion-begun-at"
# The probe that returns the API server's version, as text.
VERSION_PROBE = "api-server-version"
# The channel that deletes servers.
CHANNEL = "kubernikus-servers"


class ServerDeletion(msgspec.Struct, frozen=True):
    """A message to OpenStack: delete the server of a node.

    `secret`: namespace and name of the Secret with the credentials.
    """

    server: str
    secret: tuple[str, str]
