"""Errors and warnings about `esx.yaml`, with their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from haulout.base.yaml import Node
from haulout.plugins.file_lint import Oddity, Problem, has_keys, lint_block
from haulout.surfaces.esx.options import Esx

# Keys that no other configuration file has, at the top level and in `intervals`.
_TOP, _INTERVALS = frozenset({"vCenters", "alarms"}), frozenset({"check", "vmShutdown"})


def is_esx(document: Node | None) -> bool:
    """Whether the document is an `esx.yaml`, judged by its keys."""
    return has_keys(document, _TOP, _INTERVALS)


def lint(data: bytes | str, *, source: str, environment: Mapping[str, str]) -> list[Problem]:
    """Return all errors and warnings, from top to bottom."""
    return lint_block(Esx, data, _oddities, source=source, environment=environment, any_keys=True)


def _oddities(read: Esx) -> Iterator[Oddity]:
    zones = read.v_centers.credentials
    for zone in zones:
        if len(zone) != 1:
            right = "the last character of the label, such as a"
            yield ("vCenters", "credentials", zone), "no node is in this zone: zones have one letter or digit", right
    if len(zones) > 1 and "$AZ" not in read.v_centers.template_url:
        what = f"all {len(zones)} zones have the same vCenter"
        yield ("vCenters", "templateUrl"), what, "$AZ stands for the zone"
