"""Pauses (K22): nothing that disrupts is sent while a node is paused, and afterwards all ends as without the pause."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.core.action import Create, Delete, Evict, Send
from haulout.core.holds import BEGUN_HOLDS_OF_NODE, Hold
from haulout.core.pause import ANNOTATION
from haulout.embedded import NODES, PODS, Json, Resource
from haulout.kernel.requests import Change, Refused
from haulout.surfaces.esx.vcenter import StopVirtualMachine
from haulout.surfaces.kubernikus.wire import ServerDeletion
from haulout.surfaces.nodemaintenance.wire import KIND as MAINTENANCE
from haulout.surfaces.notify.wire import KIND as NOTICE
from tests.build.all_surfaces import DEMO, MOST, NODE_BUDGETS
from tests.build.every_owner import EveryOwner
from tests.build.examples import examples
from tests.build.maintenance_sets import SETS
from tests.build.maintenances import MAINTENANCES
from tests.build.notices import HOME, NOTICES
from tests.build.skyhooks import SKYHOOKS, P
from tests.build.walk import Tape

WAITS = (0.0, 0.3, 2.0, 9.0, 40.0)
CODES = (409, 500, 429)
HALF = {"matchLabels": {"half": "yes"}}


class Paused(EveryOwner):
    """All that takes nodes out of service, with everything that people may pause.

    `broken`: the writes and messages that broke a pause.
    """

    def __init__(self) -> None:
        super().__init__(6)
        self.broken: list[str] = []
        self.on_write, self.on_send = self._judge, self._judge_message
        for name in self.names[:3]:
            self.world.change(NODES, name, {"metadata": {"labels": {"half": "yes"}}})

    def pause_budget(self, name: str, selector: Json | None) -> None:
        spec = {"paused": {"reason": "stop"}, **({"selector": selector} if selector else {})}
        if self.world.objects.get(NODE_BUDGETS, "", name) is None:
            self._create(NODE_BUDGETS, "NodeDisruptionBudget", {"name": name}, spec)

    def pause_set(self, *, is_paused: bool) -> None:
        """Pause the NodeMaintenanceSet by its own switch."""
        if self.world.objects.get(SETS, "", "set") is not None:
            self.world.objects.patch(SETS, "", "set", {"spec": {"paused": is_paused}})

    def annotate(self, resource: Resource, namespace: str, name: str, reason: str | None) -> None:
        if self.world.objects.get(resource, namespace, name) is not None:
            body = {"metadata": {"annotations": {ANNOTATION: reason}}}
            self.world.objects.patch(resource, namespace, name, body)

    def resume(self) -> None:
        self.pause_set(is_paused=False)
        for name in ("all", "half"):
            if self.world.objects.get(NODE_BUDGETS, "", name) is not None:
                self.world.objects.delete(NODE_BUDGETS, "", name)
        for resource, namespace in ((NODES, ""), (MAINTENANCES, ""), (NOTICES, HOME), (SKYHOOKS, "")):
            for each in self.world.objects.list(resource, namespace):
                if ANNOTATION in each["metadata"].get("annotations", {}):
                    self.annotate(resource, namespace, each["metadata"]["name"], None)

    def paused(self, node: str) -> bool:
        """Whether people have paused a node: itself, a budget, or any object whose work on it has begun."""
        for budget in self.world.objects.list(NODE_BUDGETS):
            if "paused" in budget["spec"] and ("selector" not in budget["spec"] or node in self.names[:3]):
                return True
        if self.world.objects.get(NODES, "", node) is None:
            return False
        if ANNOTATION in self.node(node)["metadata"].get("annotations", {}):
            return True
        return any(self._is_annotated(owner) for owner in self._begun_on(node))

    def _begun_on(self, node: str) -> set[Key]:
        """Return the objects whose work on a node has begun, as the claims of the operator say."""
        found = self.kernel.store.bucket(BEGUN_HOLDS_OF_NODE, "", node_key(node))
        return {hold.claim.owner for hold in found if isinstance(hold, Hold)}

    def _is_annotated(self, owner: Key) -> bool:
        resource = {MAINTENANCE: MAINTENANCES, NOTICE: NOTICES, "Skyhook": SKYHOOKS}.get(owner.kind, NODES)
        found = self.world.objects.get(resource, owner.namespace, owner.name) or {"metadata": {}}
        return ANNOTATION in found["metadata"].get("annotations", {})

    def _judge(self, body: Change | Create | Evict | Delete) -> None:
        node = self._disrupted(body)
        if node is not None and self.paused(node):
            self.broken.append(f"{self.world.time.now()}: {node}: {body}")

    def _judge_message(self, send: Send) -> None:
        match send.payload:
            case StopVirtualMachine() if self.paused(self.guest):
                self.broken.append(f"{self.world.time.now()}: {self.guest}: {send}")
            case ServerDeletion() if self.paused(self.server):
                self.broken.append(f"{self.world.time.now()}: {self.server}: {send}")
        self.obey(send)

    def _disrupted(self, body: Change | Create | Evict | Delete) -> str | None:
        """Return the node that a write disrupts."""
        target = body.target
        if isinstance(body, Change):
            if target.kind != "Node":
                return None
            old = {taint["key"] for taint in self.node(target.name)["spec"].get("taints") or []}
            spec = body.body.get("spec") or {}
            labels = (body.body.get("metadata") or {}).get("labels") or {}
            enters = "in-maintenance" in labels.values()
            added = {taint["key"] for taint in spec.get("taints") or []} - old
            return target.name if spec.get("unschedulable") or added or enters else None
        if isinstance(body, Create):
            return body.body["spec"].get("nodeName") if body.body.get("kind") == "Pod" else None
        found = self.world.objects.get(PODS, target.namespace, target.name)
        if target.kind != "Pod" or found is None:
            return None
        # Pods of packages are removed when they have ended, or when their Skyhook no longer wants them.
        is_of_package = f"{P}name" in (found["metadata"].get("labels") or {})
        return None if is_of_package and isinstance(body, Delete) else found["spec"].get("nodeName")

    def ending(self) -> Json:
        """Return how the nodes and the objects about them have ended, without instants."""
        nodes = {each["metadata"]["name"]: each for each in self.world.objects.list(NODES)}
        return {
            "nodes": {
                name: (
                    sorted((each["metadata"].get("labels") or {}).items()),
                    sorted(each["metadata"].get("annotations") or {}),
                    each["spec"].get("unschedulable", False),
                    sorted(taint["key"] for taint in each["spec"].get("taints") or []),
                )
                for name, each in sorted(nodes.items())
            },
            "skyhook": (self.world.objects.get(SKYHOOKS, "", DEMO) or {}).get("status", {}).get("nodeStatus"),
            "set": (self.world.objects.get(SETS, "", "set") or {}).get("status", {}).get("nodes"),
            "left": [
                each["metadata"]["name"]
                for resource, namespace in ((MAINTENANCES, ""), (NOTICES, HOME))
                for each in self.world.objects.list(resource, namespace)
            ],
        }


@cache
def ending_without_pauses() -> Json:
    """Return how everything ends that people wish at once, and that no one pauses."""
    everything = Paused()
    for wish in wishes_of(everything):
        wish()
    everything.run(1500)
    assert not any(everything.unfinished().values()), everything.unfinished()
    return everything.ending()


def wishes_of(everything: Paused) -> list[Callable[[], None]]:
    acts = (everything.maintain, everything.notice, everything.want_profile)
    wishes: list[Callable[[], None]] = [partial(act, name) for name in everything.names for act in acts]
    return [*wishes, everything.roll, everything.stop_guest, everything.delete_server, everything.roll_set]


class Course:
    """The wishes of all people in some order, with pauses, crashes and refusals in between."""

    def __init__(self, tape: bytes) -> None:
        self.tape, self.all = Tape(tape), Paused()

    def go(self) -> None:
        everything = self.all
        wishes = wishes_of(everything)
        while wishes:
            wishes.pop(self.tape.pick(range(len(wishes))))()
            self._disturb()
            everything.run(self.tape.pick(WAITS))
        for _ in range(6):
            self._disturb()
            everything.run(60)
        everything.crash_at(0, after=False)
        everything.resume()
        everything.run(1500)
        assert not any(everything.unfinished().values()), everything.unfinished()
        assert (everything.broken, everything.faults, everything.failures) == ([], [], [])
        assert (everything.cordoned(), everything.marks()) == ([], {})
        assert everything.most <= MOST
        assert everything.ending() == ending_without_pauses()

    def _disturb(self) -> None:
        everything, name = self.all, self.tape.pick(self.all.every)
        match self.tape.pick(range(12)):
            case 1 | 2:
                everything.annotate(NODES, "", name, "disk")
            case 3:
                everything.pause_budget("all", None)
            case 4:
                everything.pause_budget("half", HALF)
            case 5:
                everything.annotate(MAINTENANCES, "", name, "wait")
            case 6:
                everything.annotate(NOTICES, HOME, name, "wait")
            case 7:
                everything.annotate(SKYHOOKS, "", DEMO, "wait")
            case 8:
                everything.resume()
            case 9:
                everything.crash_at(self.tape.pick(range(1, 30)), after=self.tape.pick((False, True)))
            case 10:
                everything.refusals = [Refused(self.tape.pick(CODES), "not now")] * self.tape.pick((1, 3))
            case 11:
                everything.pause_set(is_paused=True)


@settings(max_examples=examples(30), deadline=None)
@given(st.binary(min_size=60, max_size=200))
def test_nothing_disrupts_what_is_paused_and_all_ends_as_without_it(tape: bytes) -> None:
    Course(tape).go()
