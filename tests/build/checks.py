"""One check on its own: a small fleet, a configuration, and the verdict."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from haulout.cluster.key import Key
from haulout.cluster.project import Keep, Projector
from haulout.cluster.rows import NodeRow, ObjectRow, PodRow, PodTraits, Row, Value
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import CONFIG, View
from haulout.model.meta import ObjectMeta
from haulout.plugins.api import CheckInput, TriggerInput, Verdict
from haulout.plugins.config import ConfigProblem
from haulout.plugins.hypervisors import HYPERVISORS, Hypervisor, HypervisorRow
from haulout.surfaces.profiles.counts import FLEET, InMaintenance, unreadable
from haulout.surfaces.profiles.load import known_plugins, load
from haulout.surfaces.profiles.marks import mark
from haulout.surfaces.profiles.surface import sources
from haulout.surfaces.profiles.wire import (
    DATA_ANNOTATION,
    PROFILE_LABEL,
    SURFACE,
    Entry,
    MaintenanceData,
    stamp,
    write_data,
)
from tests.build.rows import START, node

FILE = "intervals: {{requeue: 30s}}\ninstances: {{{kind}: [{{type: {type}, name: x, config: {config}}}]}}\n"


def configured(kind: str, plugin: str, config: str) -> Any:
    text = FILE.format(kind=kind, type=plugin, config=config)
    return load(text, known_plugins(), source="maintenance.yaml", environment={})


def refusal(kind: str, plugin: str, config: str) -> str:
    with pytest.raises(ConfigProblem) as caught:
        configured(kind, plugin, config)
    return caught.value.what


def fleet(loaded: Any, *rows: Row, now: datetime = START) -> Store:
    """Return a store that has listed what the configuration needs, with the marks that decisions count."""
    store = Store()
    store.pass_time(now)
    for row in rows:
        store.put(row) if isinstance(row, ObjectRow) else store.write(row)
    for source in sources(loaded):
        store.set_listing("", source.kind, Listing.LISTED)
    store.write(Value(key=Key("", CONFIG, "", SURFACE), value=loaded))
    for key in store.keys("", "Node"):
        for made in mark(key, View(store), now).marks:
            store.write(made)
    return store


def judged(
    plugin: str,
    config: str,
    row: NodeRow | None = None,
    *others: Row,
    state: str = "operational",
    last_transition: datetime = START,
    now: datetime = START,
    may_wait: bool = True,
    explaining: bool = True,
) -> Verdict:
    row = row or node("n")
    loaded = configured("check", plugin, config)
    found = loaded.checks["x"]
    inputs = CheckInput(
        node=row,
        profile="p",
        state=state,
        last_transition=last_transition,
        now=now,
        view=View(fleet(loaded, row, *others, now=now), explaining=explaining),
        in_maintenance=InMaintenance,
        unreadable=unreadable,
        may_wait=may_wait,
        pace_for=timedelta(seconds=30),
        fleet=FLEET,
        probe=found.plugin.probe,
    )
    verdict: Verdict = found.plugin.judge(found.config, inputs)
    return verdict


def pulled(plugin: str, config: str, row: NodeRow, *others: Row) -> Any:
    loaded = configured("trigger", plugin, config)
    found = loaded.triggers["x"]
    inputs = TriggerInput(row, "p", "operational", START, View(fleet(loaded, row, *others)))
    return found.plugin.pull(found.config, inputs)


def member(name: str, **states: str) -> NodeRow:
    """Return a node with profiles in these states."""
    entries = {profile: Entry(stamp(START), state, state) for profile, state in states.items()}
    data = write_data(MaintenanceData(entries))
    return node(name, annotations={DATA_ANNOTATION: data}, labels={PROFILE_LABEL: "--".join(states)})


def pod(name: str, on: str, *, prefers_operational: bool = True) -> PodRow:
    spec = PodTraits(prefers_operational=prefers_operational)
    return PodRow(key=Key("", "Pod", "default", name), node=on, spec=spec)


def hypervisor(name: str, **parts: Any) -> HypervisorRow:
    row = Projector(HYPERVISORS, "", Keep()).row(Hypervisor(ObjectMeta(name=name, resource_version="1"), **parts))
    assert isinstance(row, HypervisorRow)
    return row
