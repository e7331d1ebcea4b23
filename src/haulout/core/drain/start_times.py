"""The annotation that keeps when the drains of a node began, so that time-outs survive a restart."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from haulout.base.bounds import instant
from haulout.cluster.rows import NodeRow
from haulout.model.meta import wire_time

ANNOTATION = "haulout.dev/drain-started-at"


def start_times(node: NodeRow) -> dict[str, datetime]:
    """Return when the drains of a node began, by profile. An annotation that cannot be read counts as absent."""
    text = node.annotations.get(ANNOTATION)
    if not text:
        return {}
    try:
        found = msgspec.json.decode(text, type=dict[str, datetime])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {profile: instant(at) for profile, at in found.items()}


def with_start_times(node: NodeRow, since: Mapping[str, datetime]) -> NodeRow:
    annotations = {name: text for name, text in node.annotations.items() if name != ANNOTATION}
    if since:
        stamps = {name: wire_time(at) for name, at in sorted(since.items())}
        annotations[ANNOTATION] = msgspec.json.encode(stamps).decode()
    return msgspec.structs.replace(node, annotations=annotations)
