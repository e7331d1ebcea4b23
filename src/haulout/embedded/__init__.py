"""The embedded cluster: a Kubernetes-shaped world in memory, on an injected clock.

This module is the facade: callers outside of the package import its names and no inner module. The folders, from the top:

- `world.py`: `World`, a whole cluster with nodes in zones that is served over HTTPS.
- `face/`: the API server as clients see it. Requests and responses, watches, tables for kubectl, discovery, admission
  webhooks; over HTTPS (`HttpFace`) or within this process (`InProcessTransport`).
- `controllers/`: the simulated scheduler, workload controllers and kubelets (`Actors`). They know the API server by the
  protocol `Objects` alone.
- `store/`: the API server without HTTP (`Server`). Objects, revisions, the catalogue of kinds, definitions of custom
  kinds, evictions.
- `rules/`: what the API server fills in and refuses, kind by kind, in the words of the real one.
- `interfaces.py`, `resources.py`, `timers.py`: the types that all of them share, the addresses of the built-in kinds,
  clocks that run or are moved by hand.

Imports point down this list. `face` does not know `controllers`, and `controllers` do not know `store`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from haulout.embedded.controllers.actors import Actor, ActorOptions, Actors
    from haulout.embedded.controllers.behaviour import UNMANAGED, KubeletOptions, PodBehaviour
    from haulout.embedded.face.admission import Admission
    from haulout.embedded.face.api import Api
    from haulout.embedded.face.https import HttpFace, KubeconfigRefused
    from haulout.embedded.face.inprocess import InProcessTransport
    from haulout.embedded.face.responses import Response
    from haulout.embedded.face.webhooks import WebhookClient
    from haulout.embedded.interfaces import Change, Json, Objects, Resource
    from haulout.embedded.resources import (
        CUSTOM_RESOURCE_DEFINITIONS,
        DAEMON_SETS,
        DEPLOYMENTS,
        DISRUPTION_BUDGETS,
        EVENTS,
        JOBS,
        LEASES,
        NAMESPACES,
        NODES,
        PODS,
        REPLICA_SETS,
        STATEFUL_SETS,
    )
    from haulout.embedded.store.server import Server
    from haulout.embedded.timers import LoopTimers, VirtualTimers
    from haulout.embedded.world import ZONE, World, read_manifests

# The module of each name. It is imported when the name is first used: a plan needs no HTTPS server and does not load one.
_HOMES = {
    "Actor": "controllers.actors",
    "ActorOptions": "controllers.actors",
    "Actors": "controllers.actors",
    "Admission": "face.admission",
    "Api": "face.api",
    "CUSTOM_RESOURCE_DEFINITIONS": "resources",
    "Change": "interfaces",
    "DAEMON_SETS": "resources",
    "DEPLOYMENTS": "resources",
    "DISRUPTION_BUDGETS": "resources",
    "EVENTS": "resources",
    "HttpFace": "face.https",
    "InProcessTransport": "face.inprocess",
    "JOBS": "resources",
    "Json": "interfaces",
    "KubeconfigRefused": "face.https",
    "KubeletOptions": "controllers.behaviour",
    "LEASES": "resources",
    "LoopTimers": "timers",
    "NAMESPACES": "resources",
    "NODES": "resources",
    "Objects": "interfaces",
    "PODS": "resources",
    "PodBehaviour": "controllers.behaviour",
    "REPLICA_SETS": "resources",
    "Resource": "interfaces",
    "Response": "face.responses",
    "STATEFUL_SETS": "resources",
    "Server": "store.server",
    "UNMANAGED": "controllers.behaviour",
    "VirtualTimers": "timers",
    "WebhookClient": "face.webhooks",
    "World": "world",
    "ZONE": "world",
    "read_manifests": "world",
}

__all__ = [
    "CUSTOM_RESOURCE_DEFINITIONS",
    "DAEMON_SETS",
    "DEPLOYMENTS",
    "DISRUPTION_BUDGETS",
    "EVENTS",
    "JOBS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "REPLICA_SETS",
    "STATEFUL_SETS",
    "UNMANAGED",
    "ZONE",
    "Actor",
    "ActorOptions",
    "Actors",
    "Admission",
    "Api",
    "Change",
    "HttpFace",
    "InProcessTransport",
    "Json",
    "KubeconfigRefused",
    "KubeletOptions",
    "LoopTimers",
    "Objects",
    "PodBehaviour",
    "Resource",
    "Response",
    "Server",
    "VirtualTimers",
    "WebhookClient",
    "World",
    "read_manifests",
]


def __getattr__(name: str) -> Any:
    """Import the module of a public name and return the name's value."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
