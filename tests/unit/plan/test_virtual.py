"""The kernel on an in-process world: the changes that it receives, and how time passes."""

from __future__ import annotations

from datetime import datetime, timedelta

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import Keep, within
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import Label
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.embedded import LEASES, NODES, Json
from haulout.kernel.kernel import Kernel
from haulout.plan.virtual import VirtualDriver
from tests.build.workloads import START, World, node

DAY = timedelta(days=1)


class Greeter:
    """A surface that labels each node with the day on which it was last asked, one day after the other."""

    def __init__(self, days: int = 3) -> None:
        self.world = World(nodes=2)
        self.asked_at: list[datetime] = []
        self._days = days
        self.kernel = Kernel((Decider("greeter", "Node", self._decide),))
        self.driver = VirtualDriver(self.kernel, self.world.objects, self.world.time)
        self.driver.watch("Node", Keep())

    def _decide(self, key: Key, view: View, now: datetime) -> Decision:
        row = view.get(key, NodeRow)
        self.asked_at.append(now)
        day = (now - START) // DAY
        if row is None or day >= self._days:
            return NOTHING
        return Decision(actions=((Label(key, "day", str(day)),),), until=START + (day + 1) * DAY)

    def label(self, name: str) -> str | None:
        found: str | None = self.world.get(NODES, name)["metadata"]["labels"].get("day")
        return found


def test_time_jumps_to_the_next_instant_at_which_anything_can_happen() -> None:
    greeter = Greeter()
    greeter.driver.run(START + 100 * DAY)
    assert greeter.world.time.now() == START + 100 * DAY
    assert [greeter.label(name) for name in ("n0", "n1")] == ["2", "2"]
    assert {(at - START) // DAY for at in greeter.asked_at} == {0, 1, 2, 3}


def test_it_stops_between_two_instants_where_all_is_done() -> None:
    greeter = Greeter()
    greeter.driver.run(START + 100 * DAY, lambda: greeter.label("n1") == "1")
    assert greeter.world.time.now() - START < 2 * DAY


def test_the_echo_of_an_own_write_is_no_news() -> None:
    greeter = Greeter(days=1)
    greeter.driver.run(START + timedelta(seconds=30))
    row, asked = greeter.kernel.store.row(node_key("n0")), len(greeter.asked_at)
    greeter.driver.run(START + timedelta(seconds=60))
    assert isinstance(row, NodeRow)
    assert row.labels["day"] == "0"
    assert greeter.kernel.store.row(node_key("n0")) is row
    assert len(greeter.asked_at) == asked


def test_what_others_write_is_taken_in() -> None:
    greeter = Greeter(days=0)
    greeter.driver.run(START + timedelta(seconds=30))
    greeter.world.make(node("n2")).change(NODES, "n0", {"metadata": {"labels": {"by": "them"}}})
    greeter.world.objects.delete(NODES, "", "n1")
    greeter.driver.run(START + timedelta(seconds=60))
    rows = [greeter.kernel.store.row(node_key(name)) for name in ("n0", "n1", "n2")]
    assert [row is not None for row in rows] == [True, False, True]
    assert isinstance(rows[0], NodeRow)
    assert rows[0].labels["by"] == "them"


def test_of_a_kind_watched_in_one_namespace_the_others_are_not_seen() -> None:
    greeter = Greeter(days=0)
    kind = within("Lease", "kube-system")
    greeter.world.objects.create(LEASES, lease("early", "default"))
    greeter.driver.watch(kind, Keep())
    for namespace in ("kube-system", "default"):
        greeter.world.objects.create(LEASES, lease("late", namespace))
    greeter.driver.run(START + timedelta(seconds=30))
    assert [(key.namespace, key.name) for key in greeter.kernel.store.keys("", kind)] == [("kube-system", "late")]


def lease(name: str, namespace: str) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}
