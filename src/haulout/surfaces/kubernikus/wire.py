"""The labels of Kubernikus maintenance on Nodes, and the message and the question that it has for the outside."""

from __future__ import annotations

import msgspec

NAME = "kubernikus"
REPORTER = "kubernikus-maintenance"
UPDATE_LABEL = "cloud.sap/kubelet-needs-update"
DELETE_LABEL = "cloud.sap/delete-node"
# The probe that returns the API server's version, as text.
VERSION_PROBE = "api-server-version"
# The channel that deletes servers.
CHANNEL = "kubernikus-servers"


class ServerDeletion(msgspec.Struct, frozen=True):
    """A message to OpenStack: delete the server of a node.

    `secret` is where the credentials are.
    """

    server: str
    secret: tuple[str, str]
