"""The paths of the API, parsed into object, collection or subresource."""

from __future__ import annotations

from typing import NamedTuple

from haulout.embedded.interfaces import Resource


class Route(NamedTuple):
    """What a request's path addresses: an object, a collection or a subresource. Absent parts are empty."""

    resource: Resource
    namespace: str
    name: str
    subresource: str
    # Whether the address leads through a namespace.
    within: bool


def parse_path(path: str) -> Route | None:
    """Return the route of a path; None if it addresses no object."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace, within = "", False
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in {"status", "finalize"}):
        namespace, rest, within = rest[1], rest[2:], True
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    return Route(Resource(group, version, plural), namespace, name, subresource, within)
