"""The decision: a Beacon waits for its node and for its turn on it, lights it, and says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from acme_lighthouse.declare import GROUP, KIND, NAME, PLURAL, VERSION
from acme_lighthouse.reasons import DARK, WARMING
from acme_lighthouse.settings import LighthouseSettings
from haulout.cluster.key import Key, node_key
from haulout.cluster.project import Resource
from haulout.cluster.rows import ObjectRow, Row, Value
from haulout.cluster.store import Index, Store
from haulout.cluster.view import CONFIG, View
from haulout.core.action import Label
from haulout.core.decision import NOTHING, Decider, Decision, Source
from haulout.core.declaration import Declaration, NodeObjects
from haulout.core.holds import Claim, Want, is_granted, refusals
from haulout.core.planned import IN_MAINTENANCE, REQUIRED, PlannedObjects
from haulout.core.reason import Reason
from haulout.model.meta import ObjectMeta

LIT = "acme.test/lit"
CONFIG_KEY = Key("", CONFIG, "", NAME)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class Beacon(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


class BeaconRow(ObjectRow, frozen=True, kw_only=True):
    node: str = ""


def _project(beacon: Beacon, common: dict[str, Any]) -> BeaconRow:
    return BeaconRow(**common, node=beacon.spec.node_name)


def _node_of(row: Row) -> tuple[str, ...]:
    return (row.node,) if isinstance(row, BeaconRow) and row.node else ()


RESOURCE = Resource(KIND, f"/apis/{GROUP}/{VERSION}", PLURAL, False, Beacon, _project)
BEACONS_OF_NODE = Index("beacons-of-node", KIND, _node_of)


def decide(key: Key, view: View, now: datetime) -> Decision:
    row, config = view.get(key, BeaconRow), view.config(NAME)
    if row is None or config is None or not isinstance(config.value, LighthouseSettings):
        return NOTHING
    node = view.node(row.node)
    if node is None:
        return Decision(reasons=(Reason(DARK, key, f"there is no node {row.node} to light"),))
    colour = config.value.lamp_colour
    if node.labels.get(LIT) != colour:
        return _lit(key, node.key, colour, view)
    if row.labels.get(LIT) != "true":
        return Decision(actions=((Label(key, LIT, "true"),),))
    return NOTHING


def _lit(key: Key, node: Key, colour: str, view: View) -> Decision:
    claim = Claim(node, key, frozenset({Want.CORDON}))
    if not is_granted(view, NAME, claim):
        return Decision(claims=(claim,), reasons=refusals(view, NAME, claim) if view.explaining else ())
    warming = Reason(WARMING, key, f"its lamp warms up on {node.name}")
    return Decision(actions=((Label(node, LIT, colour),),), claims=(claim,), reasons=(warming,))


def _nodes(key: Key, store: Store) -> Iterable[Key]:
    row = store.row(key)
    return tuple(map(node_key, _node_of(row))) if row is not None else ()


def _rows(settings: LighthouseSettings) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=settings)


def _reason(row: BeaconRow, causes: tuple[Reason, ...]) -> Reason:
    return Reason("maintenance", row.key, f"Beacon {row.key.name} shines on {row.node}", because=causes)


def _is_lit(beacon: dict[str, Any]) -> bool:
    return (beacon["metadata"].get("labels") or {}).get(LIT) == "true"


LIGHTHOUSE = Declaration(
    name=NAME,
    deciders=(Decider(NAME, KIND, decide, nodes=_nodes),),
    sources=lambda settings: frozenset({Source("", KIND), Source("", "Node")}),
    rows=_rows,
    kinds=(RESOURCE,),
    explains={KIND: NAME},
    node_objects=NodeObjects(kind=KIND, index=BEACONS_OF_NODE, node=lambda row: str(row.node), reason=_reason),
    planned_objects=PlannedObjects(
        kind=KIND,
        node=lambda beacon: str(beacon["spec"].get("nodeName", "")),
        state=lambda beacon, cordoned: IN_MAINTENANCE if _is_lit(beacon) else REQUIRED,
        is_done=_is_lit,
        make=lambda node: {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": {"name": f"plan-{node}"},
            "spec": {"nodeName": node},
        },
    ),
)
