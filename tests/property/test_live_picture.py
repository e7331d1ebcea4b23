"""A live picture that follows changes is the picture of a fresh start, and its rows say what `explain` says."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.status import budgets, maintenances, nodes, pods, setup_with
from haulout.cluster.key import Key, node_key
from haulout.cluster.kinds import Kinds
from haulout.core.decision import Source
from haulout.core.reason import Reason
from haulout.explain.fleet import Fleet, fleet_of
from haulout.explain.live import LivePicture
from haulout.explain.node import explain
from haulout.explain.node_rows import node_rows
from haulout.explain.setup import Setup
from haulout.kernel.assemble import assemble, merge_sources

COUNT, EACH, WANTED, MAINTAINED = 8, 2, 4, 3
ZONE = "topology.kubernetes.io/zone"
NOW = datetime(2026, 3, 2, tzinfo=UTC)
Json = dict[str, Any]


@cache
def setup() -> Setup:
    with tempfile.TemporaryDirectory() as folder:
        return setup_with(Path(folder))


def pod_budgets() -> Iterator[Json]:
    for number in range(EACH):
        spec = {"selector": {"matchLabels": {"app": f"app{number}"}}, "maxUnavailable": 1}
        status = {"disruptionsAllowed": number, "expectedPods": COUNT, "currentHealthy": COUNT, "desiredHealthy": COUNT}
        meta = {"name": f"app{number}", "namespace": "shop", "uid": f"pdb{number}"}
        yield {"metadata": meta, "spec": spec, "status": {**status, "observedGeneration": 0}}


class Watched:
    """The tables of a cluster as watches fill them, for any number of kernels."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Json]] = {
            "Node": {each["metadata"]["name"]: each for each in nodes(COUNT, WANTED)},
            "Pod": {each["metadata"]["name"]: each for each in pods(COUNT, EACH)},
            "NodeMaintenance": {each["metadata"]["name"]: each for each in maintenances(COUNT, MAINTAINED)},
            "NodeDisruptionBudget": {each["metadata"]["name"]: each for each in budgets()},
            "PodDisruptionBudget": {each["metadata"]["name"]: each for each in pod_budgets()},
        }
        self.version = 0
        self.live = self.fresh()

    def fresh(self) -> LivePicture:
        assembly = assemble(setup().enabled, together=setup().together)
        kinds = Kinds(assembly.kinds)
        wanted = merge_sources((Source("", "Node"), *assembly.sources()))
        store = assembly.kernel.store
        self.rows: Callable[[str, Json], Any] = lambda kind, body: kinds.projector("", kind).row(
            msgspec.convert(body, kinds.resource(kind).model)
        )
        for source in sorted(wanted, key=lambda source: source.kind):
            kinds.keep("", source.kind, source.keep)
            store.begin_list("", source.kind)
            for body in self.objects.get(source.kind, {}).values():
                store.put(self.rows(source.kind, self.versioned(body)))
            store.end_list("", source.kind, self.version)
        live = LivePicture(assembly.kernel, tuple(source.kind for source in wanted), asyncio.Event(), self.no_look)
        live.settle()
        # Follow changes as a large fleet does.
        live._settling_took = 1.0
        return live

    async def no_look(self) -> None: ...

    def versioned(self, body: Json) -> Json:
        if "resourceVersion" not in body["metadata"]:
            self.version += 1
            body["metadata"]["resourceVersion"] = str(self.version)
        return body

    def put(self, kind: str, body: Json) -> None:
        metadata = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
        body = self.versioned({**body, "metadata": metadata})
        self.objects[kind][body["metadata"]["name"]] = body
        self.live.kernel.store.put(self.rows(kind, body))

    def remove(self, kind: str, name: str) -> None:
        body = self.objects[kind].pop(name)
        self.version += 1
        key = Key("", kind, body["metadata"].get("namespace", ""), name)
        self.live.kernel.store.remove(key, self.version)


def cordon(world: Watched, number: int) -> None:
    body = list(world.objects["Node"].values())[number % COUNT]
    world.put("Node", {**body, "spec": {"unschedulable": not body["spec"].get("unschedulable")}})


def fall_ill(world: Watched, number: int) -> None:
    body = list(world.objects["Node"].values())[number % COUNT]
    is_ready = body["status"]["conditions"][0]["status"] == "True"
    world.put(
        "Node", {**body, "status": {"conditions": [{"type": "Ready", "status": "False" if is_ready else "True"}]}}
    )


def want(world: Watched, number: int) -> None:
    body = list(world.objects["Node"].values())[number % COUNT]
    labels = {**body["metadata"]["labels"], "wanted": "v3"}
    world.put("Node", {**body, "metadata": {**body["metadata"], "labels": labels}})


def toggle_maintenance(world: Watched, number: int) -> None:
    name = f"m{number % MAINTAINED}"
    if name in world.objects["NodeMaintenance"]:
        world.remove("NodeMaintenance", name)
    else:
        world.put("NodeMaintenance", list(maintenances(COUNT, MAINTAINED))[number % MAINTAINED])


def end_pod(world: Watched, number: int) -> None:
    names = sorted(world.objects["Pod"])
    for name in names[number % len(names) : number % len(names) + 1] if names else ():
        world.remove("Pod", name)


def open_budget(world: Watched, number: int) -> None:
    body = world.objects["PodDisruptionBudget"][f"app{number % EACH}"]
    allowed = 1 - body["status"]["disruptionsAllowed"]
    world.put("PodDisruptionBudget", {**body, "status": {**body["status"], "disruptionsAllowed": allowed}})


CHANGES = (cordon, fall_ill, want, toggle_maintenance, end_pod, open_budget)


def fleet(live: LivePicture) -> Fleet:
    declarations = [each.declaration for each in setup().enabled]
    return fleet_of(live.kernel, declarations, live.kinds, ZONE, NOW)


def outline(found: Fleet) -> object:
    """Return all of a fleet but the words of reasons.

    A node that a decision would cordon next is named as `about to go` or as `cordoned`, by the order of the decisions.
    """
    works = sorted((each.node, each.surface, each.object, each.state, each.pods_left) for each in found.works)
    waiting = sorted((each.node, each.object) for each in found.works if each.waits_for)
    kept = sorted({node for cause in found.causes for node in cause.nodes})
    return sorted(found.nodes, key=str), works, waiting, kept, sorted(found.budgets, key=str), found.failures


def texts(reasons: tuple[Reason, ...]) -> Iterator[str]:
    for reason in reasons:
        yield reason.text
        yield from texts(reason.because)


STEPS = st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 30)), min_size=1, max_size=8)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_following_changes_gives_the_picture_of_a_fresh_start(
    steps: list[tuple[Callable[[Watched, int], None], int]],
) -> None:
    world = Watched()
    for change, number in steps:
        change(world, number)
        world.live.refresh()
    live, rows = world.live, world.rows
    fresh = world.fresh()
    world.rows = rows
    assert outline(fleet(live)) == outline(fleet(fresh))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_the_rows_of_the_stream_say_what_explain_says(
    steps: list[tuple[Callable[[Watched, int], None], int]],
) -> None:
    world = Watched()
    for change, number in steps:
        change(world, number)
    world.live.refresh()
    kernel, found = world.live.kernel, fleet(world.live)
    explained = {
        row.name: explanation
        for row in found.nodes
        if (explanation := explain(kernel, setup().enabled, node_key(row.name), NOW)) is not None
    }
    said = {text for each in explained.values() for text in texts(each.reasons)}
    for row in node_rows(kernel.store, found, ()):
        explanation = explained[row.name]
        assert row.holders == tuple(dict.fromkeys(hold.surface for hold in explanation.holds if hold.begun))
        assert row.state != "cordoned" or "cordoned" in explanation.flags
        assert row.safe_to_work is not True
        assert any(row.cause.startswith(text) or row.cause.endswith(text) for text in said if text) or not row.cause
