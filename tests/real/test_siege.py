"""Five surfaces, two replicas, and faults of every kind at once: one replica acts, nothing is done twice, and all finish."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.build.all_surfaces import MOST
from tests.build.examples import LONG
from tests.real.test_surfaces_together import (
    KINDS,
    SKYHOOKS,
    WITHIN,
    Together,
    Unfinished,
    faults,
    operator_of,
)
from tests.rig.api import ApiError, Json
from tests.rig.audit import Entry
from tests.rig.clusterapi import MAY_MEND, REQUEST, Machine, define_all, kubeconfig, machine_object, secret_object
from tests.rig.faults import Action, Answer, CutAfter, CutBefore, CutStream, Delay, FaultProxy, InsertEvent, Stall
from tests.rig.kwok import Kwok
from tests.rig.operator import Platform
from tests.rig.plane import ControlPlane
from tests.rig.recorded import recorded
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

# HAULOUT_SIEGE=600 is ten minutes of faults (as in a long run), HAULOUT_SIEGE_SEED another course of them.
SECONDS = float(os.environ.get("HAULOUT_SIEGE", "600" if LONG else "15"))
SEED = int(os.environ.get("HAULOUT_SIEGE_SEED", "1"))
USERS = ("operator", "operator-b")
EVERY = 0.4
EXPIRED = {
    "type": "ERROR",
    "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired"},
}
STATE = "cloud.sap/maintenance-state"


class Siege(Together):
    """The wishes of four kinds of people for all nodes, again and again, and of Cluster API for one Machine a node."""

    def __init__(self, plane: ControlPlane, kwok: Kwok, prefix: str, server: str) -> None:
        define_all(plane.api())
        super().__init__(plane, kwok, prefix)
        # A user of its own, so that the audit log shows which replica has written what.
        rules: list[Json] = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]}]
        access = kubeconfig(plane, server=server, token=plane.token(plane.limited_user(rules)))
        plane.load([secret_object("alpha", prefix, access)])
        plane.load([machine_object(name, prefix, node=name) for name in self.names])
        self.machines = [Machine(name, prefix, self.api, self.api) for name in self.names]
        self.rounds, self.is_ending = 0, False

    def wish(self) -> None:
        super().wish()
        self.rounds += 1
        for machine in self.machines:
            machine.label(**{REQUEST: "requested"})

    def unfinished(self) -> list[str]:
        left = super().unfinished()
        for machine in self.machines:
            node = self.api.get("nodes", machine.name)["metadata"]["labels"]
            if machine.request == "requested":
                left.append(f"Machine {machine.name}")
                machine.tell_node({MAY_MEND: "true"})
            elif machine.request == "approved":
                left.append(f"Machine {machine.name} is worked on")
                machine.label(**{REQUEST: None})
            elif MAY_MEND in node:
                machine.tell_node({MAY_MEND: None})
        return left

    def again(self) -> bool:
        """End a round that is over, and begin the next one once its Skyhooks are gone. Return whether a round is on."""
        if self.is_ending and self.ended():
            self.is_ending = False
            self.wish()
        elif not self.is_ending and not self.unfinished() and not self.marks():
            self.end()
        return not self.is_ending

    def ended(self) -> bool:
        return not any(self.api.find(SKYHOOKS, skyhook) for skyhook in self.skyhooks)

    def end(self) -> None:
        self.is_ending = True
        for skyhook in self.skyhooks:
            self.api.delete(SKYHOOKS, skyhook)


class Besiegers:
    """Faults in a course that a seed decides: of requests, of watches, of the network, and of the replicas."""

    def __init__(self, proxy: FaultProxy, replicas: tuple[Platform, ...], seed: int) -> None:
        self.proxy, self.replicas, self.random = proxy, replicas, Random(seed)
        self.done: Counter[str] = Counter()
        self.deck: list[Callable[[float], None]] = []
        self.thaws: list[tuple[float, Platform]] = []
        self.refused_until = 0.0

    def strike(self) -> None:
        """Do the next mischief, and end earlier ones whose time is over."""
        now = time.monotonic()
        self.mend(now)
        if not self.deck:
            # Each kind comes up in every deck, so that a short course has them all.
            self.deck = [*[self.requests] * 8, *[self.watches] * 4, self.cut, self.refuse, self.freeze, self.kill]
            self.random.shuffle(self.deck)
        act = self.deck.pop()
        self.done[act.__name__] += 1
        act(now)

    def requests(self, now: float) -> None:
        some: list[Action] = [
            *(Answer(409, "Conflict"), Answer(429, "TooManyRequests", retry_after=1), Answer(500), Answer(503)),
            *(CutBefore(), CutAfter(), CutAfter(), Delay(before=0.5), Delay(after=0.5), Stall()),
        ]
        method = self.random.choice(["PATCH", "POST", "PUT", "DELETE", "GET", "PATCH", "POST"])
        fault = self.random.choice(some)
        self.done[type(fault).__name__ + str(getattr(fault, "code", ""))] += 1
        self.proxy.rule(
            fault, method=method, watch=False, skip=self.random.randrange(3), times=self.random.randrange(1, 4)
        )

    def watches(self, now: float) -> None:
        events = self.random.randrange(4)
        some: list[Action] = [
            CutStream(events, "reset"),
            CutStream(events, "close"),
            CutStream(events, "torn"),
            CutStream(events, "end"),
            Stall(events),
            InsertEvent(EXPIRED, events),
            Answer(410, "Expired"),
            Answer(500),
        ]
        fault = self.random.choice(some)
        self.done[f"watch {type(fault).__name__}{getattr(fault, 'code', '')}"] += 1
        self.proxy.rule(fault, watch=True, times=self.random.randrange(1, 4))
        # Only a new watch is struck.
        self.proxy.cut_all()

    def cut(self, now: float) -> None:
        self.proxy.cut_all()

    def refuse(self, now: float) -> None:
        """Break every connection for some seconds."""
        if not self.refused_until:
            self.proxy.clear()
            self.proxy.rule(CutBefore())
            self.proxy.cut_all()
            self.refused_until = now + self.random.uniform(0.5, 4)

    def freeze(self, now: float) -> None:
        """Freeze a replica: for a moment, or for longer than its lease."""
        if not self.thaws:
            chosen = self.random.choice(self.replicas)
            chosen.process.freeze()
            self.thaws.append((now + self.random.choice([1, 4, 18]), chosen))

    def kill(self, now: float) -> None:
        chosen = self.random.choice(self.replicas)
        if not self.thaws:
            chosen.process.kill()

    def mend(self, now: float) -> None:
        if self.refused_until and now >= self.refused_until:
            self.refused_until = 0.0
            self.proxy.clear()
        for each in [each for each in self.thaws if now >= each[0]]:
            self.thaws.remove(each)
            each[1].process.thaw()
        if self.random.random() < 0.3 and not self.refused_until:
            self.proxy.clear()
        # As a kubelet does.
        for replica in self.replicas:
            if not replica.process.running:
                replica.process.start()

    def leave(self) -> None:
        self.mend(float("inf"))
        self.proxy.clear()


def acts(plane: ControlPlane, since: int) -> list[Entry]:
    """Return the successful writes of both replicas, in the order of their arrival."""
    entries = [entry for user in USERS for entry in plane.audit.entries(since=since, user=user)]
    written = [entry for entry in entries if entry.writes and entry.code < 400]
    return sorted(written, key=lambda entry: entry.received_at)


def usurped(entries: list[Entry]) -> list[str]:
    """Return the writes of a replica that was not the last to write the Lease."""
    found, holder = [], ""
    for entry in entries:
        if entry.resource == "leases" and entry.name == "haulout":
            holder = entry.user
        elif entry.user != holder:
            found.append(f"{entry.received_at:%H:%M:%S.%f} {entry.user}: {entry.act} {entry.of}")
    return found


def uid_of(entry: Entry) -> str:
    """Return the UID that an eviction or a deletion names."""
    body: Json = entry.body if isinstance(entry.body, dict) else {}
    options = body.get("deleteOptions") or body
    return str((options.get("preconditions") or {}).get("uid", ""))


def repeated(entries: list[Entry]) -> list[str]:
    """Return the pods that were evicted or deleted more than once."""
    ends = [entry for entry in entries if entry.act in ("create pods/eviction", "delete pods")]
    counts = Counter((entry.of, uid_of(entry)) for entry in ends)
    return [f"{of} {uid}: {count} times" for (of, uid), count in counts.items() if count > 1]


def tracebacks(text: str) -> list[str]:
    """Return every traceback in a log, with the lines after it."""
    lines = text.splitlines()
    return ["\n".join(lines[at : at + 40]) for at, line in enumerate(lines) if "Traceback" in line]


@contextmanager
def replicas(plane: ControlPlane, proxy: FaultProxy, folder: Path, name: str) -> Iterator[tuple[Platform, ...]]:
    made = tuple(operator_of(plane, folder / user, name, user=user, server=proxy.url, clusterapi={}) for user in USERS)
    for each in made:
        each.start()
    try:
        yield made
    finally:
        for each in made:
            each.process.stop()


@pytest.mark.timeout(SECONDS + 600)
def test_five_surfaces_withstand_faults_of_every_kind(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path
) -> None:
    plane, name = managed_plane, managed_namespace
    with FaultProxy(plane) as proxy:
        siege = Siege(plane, managed_kwok, name, proxy.url)
        since = plane.audit.mark()
        with recorded(plane, KINDS.items()) as seen, replicas(plane, proxy, tmp_path, name) as both:
            besiegers = Besiegers(proxy, both, SEED)
            siege.wish()
            end = time.monotonic() + SECONDS
            strike_until(end, besiegers, siege.again)
            besiegers.leave()
            eventually(siege.again, "a last round is on")
            eventually(siege.is_done, "all are done", WITHIN + 60, refused=(Unfinished, ApiError))
            eventually(lambda: not siege.marks(), "all nodes are as they were")
            entries = acts(plane, since)
            most, found = faults(seen, siege.names, name)
            siege.end()
            eventually(siege.ended, "the Skyhooks are gone")
    # With `-s`, for runs by hand.
    print(f"rounds {siege.rounds}, writes {len(entries)}, faults {dict(besiegers.done)}")
    assert usurped(entries) == []
    assert repeated(entries) == []
    assert (most <= MOST, found) == (True, [])
    assert [found for each in both for found in tracebacks(each.process.text())] == []


def strike_until(end: float, besiegers: Besiegers, look: Callable[[], object]) -> None:
    while time.monotonic() < end:
        besiegers.strike()
        look()
        time.sleep(EVERY)
