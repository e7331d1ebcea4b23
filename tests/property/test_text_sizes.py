"""However large a text, list or map of an object is, what the operator keeps, writes and shows of it is small.

The objects come from the definitions of our kinds, so a new field is among them. They are given to the operator as an API
server has them whose definitions have no bounds: that of an original, or ours before it had any.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from haulout.cluster.key import node_key
from haulout.cluster.project import RESOURCES, Keep, Projector, Resource
from haulout.cluster.rows import ObjectRow, Row
from haulout.core.action import Measure
from haulout.core.budgets.status import samples as budget_samples
from haulout.core.budgets.wire import NODE_BUDGETS
from haulout.core.logbook.wire import RECORDS
from haulout.embedded import Json
from haulout.explain.node import explain
from haulout.kernel.requests import Answer, Body, Change, Telling
from haulout.plan.virtual import Statement
from haulout.runtime.metrics import Metrics, Sample
from haulout.surfaces.clusterapi.wire import OWN_KINDS as CLUSTER_API
from haulout.surfaces.nodemaintenance import wire as nodemaintenance
from haulout.surfaces.nodemaintenance.metrics import samples as maintenance_samples
from haulout.surfaces.nodemaintenance.sets.wire import RESOURCE as SETS
from haulout.surfaces.notify import wire as notify
from haulout.surfaces.notify.metrics import samples as notice_samples
from haulout.surfaces.packages import wire as packages
from haulout.surfaces.packages import wire_policy
from haulout.surfaces.packages.metrics import samples as package_samples
from haulout.surfaces.registry import all_declarations
from tests.build.all_surfaces import CRDS, AllSurfaces, Driver
from tests.build.free_texts import DEFINITIONS
from tests.build.large_texts import ALL, MANY, MIB, Large, accept_everything, large_objects, schema_of
from tests.build.notices import HOME

KIB = 1024
NOTHING_MORE = Keep()
# By the names of the definitions' files. No program of this product reads PlatformInfos.
KINDS: dict[str, Resource] = {
    "notifymaintenances": notify.RESOURCE,
    "nodemaintenances": nodemaintenance.RESOURCE,
    "nodemaintenancesets": SETS,
    "nodedisruptionbudgets": NODE_BUDGETS,
    "maintenancerecords": RECORDS,
    **dict(zip(("skyhooks", "nodewrights"), packages.RESOURCES, strict=True)),
    **dict(zip(("deploymentpolicies", "nodewright-deploymentpolicies"), wire_policy.POLICY_RESOURCES, strict=True)),
}
# What is kept as it is: the files of a package, which are what is installed, and the packages that a rollback would
# restore; and the states of nodes, of which a status has one for each node. The API server limits the object to 1.5 MiB.
KEPT = (
    *("spec.packages{}.configMap", "status.lastComplete", "status.configUpdates"),
    *(
        "status.nodeState",
        "status.nodeStatus",
        "status.nodeBootIds",
        "status.nodePriority",
        "status.compartmentStatuses",
    ),
)
ROW, WRITE, STATEMENT, SERIES, PAGE = 512 * KIB, 256 * KIB, 64 * KIB, 4 * KIB, 256 * KIB


def memory(value: Any) -> int:
    """Return the memory of a row, with everything in it."""
    if isinstance(value, msgspec.Struct):
        return sys.getsizeof(value) + sum(memory(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(memory(name) + memory(each) for name, each in value.items())
    if isinstance(value, list | tuple | frozenset):
        return sys.getsizeof(value) + sum(map(memory, value))
    return sys.getsizeof(value)


def row_of(resource: Resource, obj: Json, keep: Keep = NOTHING_MORE) -> ObjectRow:
    decoded = msgspec.json.decode(msgspec.json.encode(obj), type=resource.model)
    return Projector(resource, "", keep).row(decoded)


def identity(large: Large) -> str:
    return f"{large.plural}-{large.path}-{large.form}"


def is_kept(large: Large) -> bool:
    return large.kind in ("Skyhook", "NodeWright") and large.path.startswith(KEPT)


@pytest.mark.parametrize("large", [each for each in ALL if each.plural in KINDS], ids=identity)
def test_a_row_is_small(large: Large) -> None:
    # 60,000 entries of a node's state take 400 bytes each.
    assert memory(row_of(KINDS[large.plural], large.object)) < (32 * MIB if is_kept(large) else ROW)


def test_every_kind_that_is_read_is_tried() -> None:
    assert sorted([*KINDS, "platforminfos"]) == sorted(DEFINITIONS)


@pytest.mark.parametrize("plural", DEFINITIONS)
def test_every_text_list_and_map_has_a_bound_in_the_definition(plural: str) -> None:
    schema = schema_of(plural)
    parts = [(name, schema["properties"][name]) for name in ("spec", "status") if name in schema["properties"]]
    assert [place for name, part in parts for place in unbounded(part, name)] == []


def unbounded(schema: Json, path: str) -> Iterator[str]:
    is_closed = "enum" in schema or str(schema.get("pattern", "")).startswith("^(100|") or ":[0-5]" in str(schema)
    is_text = schema.get("type") == "string" or schema.get("x-kubernetes-int-or-string")
    if is_text and not is_closed and "maxLength" not in schema:
        yield path
    if schema.get("type") == "array" and "maxItems" not in schema:
        yield f"{path}[]"
    if isinstance(schema.get("additionalProperties"), dict):
        yield from () if "maxProperties" in schema else (f"{path}{{}}",)
        yield from unbounded(schema["additionalProperties"], f"{path}{{}}")
    if "items" in schema:
        yield from unbounded(schema["items"], f"{path}[]")
    for name, inner in (schema.get("properties") or {}).items():
        yield from unbounded(inner, f"{path}.{name}")


class Recorder(Driver):
    """A driver that measures what the operator writes into objects that exist."""

    sizes: dict[str, int]

    def _carried_out(self, body: Body) -> Answer:
        if isinstance(body, Change):
            name = body.target.name
            self.sizes[name] = max(self.sizes.get(name, 0), len(msgspec.json.encode(body.body)))
        return super()._carried_out(body)


class LargeObjects(AllSurfaces):
    """A cluster whose definitions accept everything, with every large object of one kind.

    `sizes`: the longest patch of each object. `kept`: the objects with a part that is kept as it is. `statements`: its events, log lines and counters.
    """

    def __init__(self, plural: str) -> None:
        self.sizes: dict[str, int] = {}
        self.statements: list[Statement] = []
        self.kept = {each.object["metadata"]["name"] for each in large_objects(plural) if is_kept(each)}
        super().__init__(count=2, records=True)
        accept_everything(self.world.objects, CRDS)
        self.begin()
        resource = KINDS[plural]
        place = self.driver._place(resource.kind)
        for large in large_objects(plural):
            body = {**large.object, "metadata": {"name": large.object["metadata"]["name"]}}
            body["metadata"] |= {"namespace": HOME} if resource.namespaced else {}
            self._give(large, place, body, HOME if resource.namespaced else "")

    def _give(self, large: Large, place: Any, body: Json, namespace: str) -> None:
        objects = self.world.objects
        status = body.pop("status", None)
        objects.create(place, body)
        if status is not None:
            objects.patch(place, namespace, body["metadata"]["name"], {"status": status}, subresource="status")

    def begin(self, late: str = "") -> None:
        super().begin(late)
        self.driver.__class__ = Recorder
        self.driver.sizes = self.sizes  # type: ignore[attr-defined]
        self.driver._on_statement = self.statements.append

    def samples(self) -> Iterator[Sample]:
        store, now = self.kernel.store, self.world.time.now()

        def rows(kind: str) -> list[Row]:
            return list(store.rows("", kind))

        yield from notice_samples((row for row in rows(notify.KIND) if isinstance(row, notify.NoticeRow)), now)
        maintenances = [row for row in rows(nodemaintenance.KIND) if isinstance(row, nodemaintenance.MaintenanceRow)]
        yield from maintenance_samples(maintenances)
        policies = {row.key.name: row for row in rows(wire_policy.POLICY) if isinstance(row, wire_policy.PolicyRow)}
        skyhooks = [row for row in rows(packages.KIND) if isinstance(row, packages.SkyhookRow)]
        yield from package_samples(skyhooks, (), policies)
        yield from budget_samples(rows(NODE_BUDGETS.kind))

    def scrape(self) -> list[bytes]:
        metrics = Metrics([metric for each in all_declarations() for metric in each.metrics])
        for statement in self.statements:
            if isinstance(statement, Measure):
                metrics.add(statement.counter, statement.labels)
        metrics.from_source(self.samples)
        return metrics.render().splitlines()


@pytest.mark.parametrize("plural", KINDS)
def test_what_the_operator_writes_and_shows_is_small(plural: str) -> None:
    ops = LargeObjects(plural)
    ops.run(120)
    assert ops.failures == []
    # What is kept is also removed: the states of nodes that do not exist.
    assert {name: size for name, size in ops.sizes.items() if size > (2 * MIB if name in ops.kept else WRITE)} == {}
    told = [each.tell if isinstance(each, Telling) else each for each in ops.statements]
    assert [each for each in told if len(msgspec.json.encode(each, enc_hook=repr)) > STATEMENT] == []
    series = ops.scrape()
    assert max(map(len, series)) < SERIES
    assert sum(map(len, series)) < 4 * MIB
    for name in ops.names:
        found = explain(ops.kernel, ops.enabled, node_key(name), ops.world.time.now())
        assert len(msgspec.json.encode(found, enc_hook=repr)) < PAGE


NOTES = frozenset({"haulout.dev/cordon", "haulout.dev/drain"})
ENTRIES = {f"example.com/k{number}": "v" for number in range(MANY)}
METADATA: dict[str, Json] = {
    "labels": {"labels": dict.fromkeys(ENTRIES, "v" * 63)},
    "annotations": {"annotations": dict.fromkeys(ENTRIES, "v")},
    "annotation": {"annotations": dict.fromkeys(NOTES, "x" * MIB)},
    "rare characters": {"annotations": dict.fromkeys(NOTES, "x" * MIB + "\U0001f6a2")},
    "finalizers": {"finalizers": list(ENTRIES)},
    "owners": {"ownerReferences": [{"kind": "x", "name": name, "uid": name} for name in ENTRIES]},
    "owner": {"ownerReferences": [{"apiVersion": "x" * MIB, "kind": "x" * MIB, "name": "x" * MIB, "uid": "x" * MIB}]},
}
ALL_KINDS = {**RESOURCES, **{each.kind: each for each in KINDS.values()}, **{each.kind: each for each in CLUSTER_API}}


@pytest.mark.parametrize("kind", sorted(ALL_KINDS))
@pytest.mark.parametrize("metadata", METADATA.values(), ids=list(METADATA))
def test_the_metadata_of_a_row_are_small(kind: str, metadata: Json) -> None:
    obj = {"metadata": {"name": "a", **metadata}}
    keep = Keep(NOTES, all_annotations=kind == "Node", details=True)
    assert memory(row_of(ALL_KINDS[kind], obj, keep)) < ROW


def node(**parts: Any) -> Json:
    return {"metadata": {"name": "a"}, **parts}


LONG = "x" * MIB
NODES = {
    "taints": node(spec={"taints": [{"key": name, "effect": "NoSchedule"} for name in ENTRIES]}),
    "conditions": node(status={"conditions": [{"type": name, "status": "True"} for name in ENTRIES]}),
    "condition": node(status={"conditions": [{"type": LONG, "status": LONG, "reason": LONG}]}),
    "provider": node(spec={"providerID": LONG}),
    "info": node(status={"nodeInfo": {"bootID": LONG, "kubeletVersion": LONG, "kernelVersion": LONG}}),
    "addresses": node(status={"addresses": [{"type": "Hostname", "address": LONG}] * 3}),
    "amounts": node(status={"capacity": ENTRIES, "allocatable": {LONG: LONG}}),
}


@pytest.mark.parametrize("obj", NODES.values(), ids=list(NODES))
def test_the_row_of_a_node_is_small(obj: Json) -> None:
    assert memory(row_of(RESOURCES["Node"], obj, Keep(details=True))) < ROW


PODS = {
    "limits": {"spec": {"containers": [{"resources": {"limits": ENTRIES}}]}},
    "status": {"status": {"phase": LONG, "reason": LONG}},
    "waiting": {"status": {"containerStatuses": [{"state": {"waiting": {"reason": LONG}}}]}},
}


@pytest.mark.parametrize("obj", PODS.values(), ids=list(PODS))
def test_the_row_of_a_pod_is_small(obj: Json) -> None:
    assert memory(row_of(RESOURCES["Pod"], {**node(), **obj}, Keep(details=True))) < ROW


def test_the_row_of_a_pod_disruption_budget_is_small() -> None:
    selector = {"matchLabels": ENTRIES, "matchExpressions": [{"key": "k", "operator": "In", "values": list(ENTRIES)}]}
    assert memory(row_of(RESOURCES["PodDisruptionBudget"], node(spec={"selector": selector}))) < ROW


def test_the_machine_of_a_long_text_is_small() -> None:
    spec = {"clusterName": LONG, "providerID": LONG, "infrastructureRef": {"name": LONG}}
    machine = node(spec=spec, status={"nodeRef": {"name": LONG}})
    assert memory(row_of(ALL_KINDS["Machine"], machine)) < ROW
