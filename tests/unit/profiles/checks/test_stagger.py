"""stagger: leases that nodes take one after another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import within
from haulout.cluster.rows import LeaseRow, NodeRow
from haulout.cluster.view import View
from haulout.core.action import Create, Patch
from haulout.core.arbiter import Rules, arbiter
from haulout.model.meta import wire_micro_time
from haulout.plugins.api import Config, Failed, TriggerInput, trigger
from haulout.surfaces.profiles.surface import DECIDER, sources
from haulout.surfaces.profiles.wire import SURFACE
from tests.build.checks import configured, judged, refusal
from tests.build.desk import Cluster, Desk
from tests.build.profiles import Profiles, config_text, worker
from tests.build.rows import START, at, node

KIND = within("Lease", "ns")
# Nodes, and what is counted when they enter maintenance.
ALWAYS = {"Node", "Pod", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"}
CONFIG = "{duration: 10s, leaseName: l, leaseNamespace: ns}"
TWO = "{duration: 10s, leaseName: l, leaseNamespace: ns, parallel: 2}"


def lease(number: int = 0, **parts: Any) -> LeaseRow:
    taken: dict[str, Any] = {
        "holder": "o",
        "duration_for": 10,
        "acquired_at": START,
        "renewed_at": START,
        "transitions": 3,
    }
    return LeaseRow(key=Key("", KIND, "ns", f"l-{number}"), uid=f"l-{number}", version=1, **{**taken, **parts})


class TestAlone:
    """Where it is negated or beside an `||`, it looks at the leases itself."""

    @pytest.mark.parametrize(
        ("seconds", "passes"), [(0.0, False), (10.0, False), (10.000001, True)], ids=["fresh", "just up", "over"]
    )
    def test_passes_when_a_lease_is_over(self, seconds: float, passes: bool) -> None:
        verdict = judged("stagger", CONFIG, node("n"), lease(), now=at(seconds), may_wait=False)
        assert verdict.passed is passes
        assert verdict.info == ({} if passes else {"availableInSec": [10.0 - seconds]})
        assert verdict.until == (None if passes else at(10))

    def test_the_duration_that_is_stored_counts(self) -> None:
        assert judged("stagger", CONFIG, node("n"), lease(duration_for=2), now=at(3), may_wait=False).passed

    @pytest.mark.parametrize("missing", ["renewed_at", "duration_for"])
    def test_a_lease_without_times_is_free(self, missing: str) -> None:
        without: dict[str, Any] = {missing: None}
        assert judged("stagger", CONFIG, node("n"), lease(**without), may_wait=False).passed

    def test_all_of_several_must_be_taken(self) -> None:
        leases = lease(0), lease(1, renewed_at=at(-4))
        verdict = judged("stagger", TWO, node("n"), *leases, may_wait=False)
        assert verdict.info == {"availableInSec": [10.0, 6.0]}
        assert verdict.until == at(6)

    @pytest.mark.parametrize("parallel", [0, -1])
    def test_none_at_all(self, parallel: int) -> None:
        config = f"{{duration: 10s, leaseName: l, leaseNamespace: ns, parallel: {parallel}}}"
        assert not judged("stagger", config).passed


class TestTaking:
    def test_a_missing_lease_is_made_as_one_that_is_over(self) -> None:
        verdict = judged("stagger", CONFIG, node("n"))
        past = wire_micro_time(START - timedelta(seconds=20))
        spec = {"holderIdentity": "n", "acquireTime": past, "renewTime": past, "leaseDurationSeconds": 10}
        (create,) = verdict.prepare
        assert isinstance(create, Create)
        assert create.body["spec"] == spec
        assert create.body["metadata"] == {"name": "l-0", "namespace": "ns"}

    @pytest.mark.parametrize(("before", "after"), [(None, 0), (0, 1), (3, 4)])
    def test_takes_the_first_that_is_free(self, before: int | None, after: int) -> None:
        leases = lease(0), lease(1, renewed_at=at(-60), transitions=before)
        verdict = judged("stagger", TWO, node("n"), *leases)
        assert verdict.take is not None
        taken = verdict.take()
        now = wire_micro_time(START)
        spec = {"holderIdentity": "n", "acquireTime": now, "renewTime": now, "leaseDurationSeconds": 10}
        assert isinstance(taken, tuple)
        (patch,) = taken
        assert isinstance(patch, Patch)
        assert (patch.target, patch.body) == (leases[1].key, {"spec": spec | {"leaseTransitions": after}})

    def test_cannot_be_taken_before_one_is_over(self) -> None:
        verdict = judged("stagger", CONFIG, node("n"), lease())
        assert verdict.take is not None
        assert verdict.take() == at(10)

    def test_its_namespace_alone_is_watched(self) -> None:
        assert {source.kind for source in sources(configured("check", "stagger", CONFIG))} - ALWAYS == {"Lease/ns"}

    def test_needs_everything(self) -> None:
        assert refusal("check", "stagger", "{leaseName: l, leaseNamespace: ns}") == "missing required field"


def staggered(config: str, nodes: int, check: str = "a && s", trigger: str = "mark") -> Profiles:
    world = Profiles(None, more=(failing,))
    rows = [worker(f"n{number:02}", a="1") for number in range(nodes)]
    world.desk = Desk(DECIDER, arbiter(Rules((SURFACE,), turns=False)), world=Cluster(*rows), kinds=("Node", KIND))
    way = f"{{check: {check}, trigger: {trigger}, next: maintenance-required}}"
    profiles = f"- {{name: p, operational: {{transitions: [{way}]}}}}\n"
    checks, fails = f"- {{type: stagger, name: s, config: {config}}}", "- {type: failing, name: fails}"
    world.configure(config_text(profiles, checks=checks, triggers=fails))
    world.desk.feed.list()
    return world


@pytest.mark.parametrize(("config", "parallel"), [(CONFIG, 1), (TWO, 2)])
def test_never_more_than_so_many_in_a_span(config: str, parallel: int) -> None:
    world = staggered(config, 6)
    world.settle()
    moved = sorted(world.entries(f"n{number:02}")["p"].transition.at for number in range(6))
    assert all(later - earlier > timedelta(seconds=10) for earlier, later in zip(moved, moved[parallel:], strict=False))
    assert moved[-1] < at(10 * 6 / parallel)
    leases = [row for row in world.desk.world.objects.values() if isinstance(row, LeaseRow)]
    assert len(leases) == parallel
    assert sum((row.transitions or 0) + 1 for row in leases) == 6
    assert not world.desk.failed


def test_people_are_told_when_it_is_the_next_ones_turn() -> None:
    world = staggered(CONFIG, 2)
    for _ in range(6):
        world.step()
    (lease,) = [row for row in world.desk.world.objects.values() if isinstance(row, LeaseRow)]
    (waits,) = [f"n{number:02}" for number in range(2) if world.current(f"n{number:02}") == {"p": "operational"}]
    decision = DECIDER.decide(node_key(waits), View(world.desk.store, explaining=True), world.now)
    (profile,) = decision.reasons
    (transition,) = profile.because
    (reason,) = transition.because
    assert reason.code == "no-room"
    assert lease.renewed_at is not None
    assert reason.until == lease.renewed_at + timedelta(seconds=10)


def test_waiting_costs_nothing() -> None:
    world = staggered(CONFIG, 20)
    world.settle()
    assert world.desk.kernel.loop.askings < 20 * 15


def test_a_failed_take_keeps_the_node_where_it_is() -> None:
    world = staggered(CONFIG, 1)
    world.step().step()
    world.desk.run()
    (request,) = world.desk.tray
    world.desk.meet(request, "409")
    assert world.current("n00") == {"p": "operational"}


def until_taken(world: Profiles) -> Profiles:
    """Run until the node has the lease, and its own patch is about to be sent."""
    for _ in range(10):
        world.desk.run()
        (request,) = world.desk.tray
        world.desk.meet(request)
        lease = world.desk.world.objects.get(Key("", KIND, "ns", "l-0"))
        if isinstance(lease, LeaseRow) and lease.renewed_at == START:
            return world
    raise AssertionError("the lease is never taken")


EXPRESSIONS = pytest.mark.parametrize("check", ["a && s", "a && (s || d)", "'!(!s) && a'"])


@EXPRESSIONS
def test_a_turn_is_not_lost_because_somebody_else_writes_to_the_node(check: str) -> None:
    world = until_taken(staggered(CONFIG, 1, check))
    for number in range(3):
        world.label("n00", foreign=str(number))
        world.desk.run()
    world.step().step().step()
    assert world.current("n00") == {"p": "maintenance-required"}
    (lease,) = [row for row in world.desk.world.objects.values() if isinstance(row, LeaseRow)]
    assert lease.transitions == 0, "it is taken once"


@EXPRESSIONS
def test_a_turn_that_was_used_is_over(check: str) -> None:
    """The holder waits like all other nodes."""
    world = until_taken(staggered(CONFIG, 1, check))
    world.step().step()
    world.annotate('{"Profiles":{},"Notifications":{}}', "n00")
    world.step().step()
    assert world.current("n00") == {"p": "operational"}


class Empty(Config, frozen=True, kw_only=True):
    pass


@trigger("failing", Empty, takes_null=True)
def failing(config: Empty, given: TriggerInput) -> NodeRow | Failed:
    return given.node if "mended" in given.node.labels else Failed("no")


def test_a_turn_whose_triggers_fail_is_over() -> None:
    """As the original has it: the node waits until the lease has run out."""
    world = until_taken(staggered(CONFIG, 1, trigger="fails")).step()
    assert [line.message for line in world.lines if line.level == "error"] == ["At least one trigger plugin failed"]
    world.label("n00", mended="").step().wait(5).step()
    assert world.current("n00") == {"p": "operational"}
    world.settle()
    assert world.entries("n00")["p"].transition.at > at(10)
