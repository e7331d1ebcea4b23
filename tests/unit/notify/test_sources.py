"""The watched kinds: no more than the operators that are switched on need and have rights for."""

from __future__ import annotations

import pytest

from haulout.surfaces.notify.load import load
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.surface import sources

BUILTIN = "recipes: [{name: a, type: builtin, checks: {daemonSetsReady: %s}}]"
SOURCES = [
    ("", {"Node", "NotifyMaintenance"}),
    ("scheduler: {enabled: true}", {"Node", "NotifyMaintenance", "Pod", "PodDisruptionBudget"}),
    ("drainer: {enabled: true}", {"Node", "NotifyMaintenance", "Pod", "PodDisruptionBudget", "DaemonSet"}),
    ("runner: {enabled: true}", {"Node", "NotifyMaintenance", "MaintenanceJob"}),
    (f"validator: {{enabled: true, {BUILTIN % 'false'}}}", {"Node", "NotifyMaintenance", "MaintenanceJob"}),
    (f"validator: {{enabled: true, {BUILTIN % 'true'}}}", {"Node", "NotifyMaintenance", "MaintenanceJob", "Pod"}),
    (f"validator: {{enabled: false, {BUILTIN % 'true'}}}", {"Node", "NotifyMaintenance"}),
    ("returner: {enabled: true}", {"Node", "NotifyMaintenance"}),
]


@pytest.mark.parametrize(("operators", "kinds"), SOURCES)
def test_what_is_watched_follows_from_the_operators(operators: str, kinds: set[str]) -> None:
    read = load(f"slaPeriod: 1h\noperators: {{{operators}}}\n")
    assert isinstance(read, Options)
    assert {source.kind for source in sources(read)} == kinds
