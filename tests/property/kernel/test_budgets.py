"""Budgets (K19): never exceeded by our doing, full while they cannot be read, and no place idle otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from hypothesis import given, settings

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Listing
from haulout.cluster.view import GRANT, HOLD, View
from haulout.core.action import Action, KeepCordoned, Label, Release
from haulout.core.arbiter import Rules, arbiter
from haulout.core.budgets.quorum import KEEPER
from haulout.core.budgets.rule import RULER
from haulout.core.budgets.status import TELLER
from haulout.core.budgets.wire import KIND, NodeBudgetRow
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.holds import Claim, Grant, Want, grant_key, is_granted
from haulout.kernel.requests import Answer, Lost
from tests.build.budgets import Opinion, budget
from tests.build.desk import FATES, Cluster, Desk
from tests.build.examples import examples
from tests.build.rows import at, node
from tests.build.walk import Move, Walk, tapes

ZONES = {"a": "z0", "b": "z0", "c": "z1", "d": "z1", "e": "z2", "f": ""}
SURFACES = {"profiles": Want.CORDON, "nodemaintenance": Want.DRAIN}
BUSY = ("in", "leaving")
CODES = {"budget-full", "domain-taken", "window-closed", "budget-invalid", "budgets-unreadable"}
FORBIDDEN = 'User "haulout" cannot list resource "nodedisruptionbudgets"'
POOL = {"selector": {"matchLabels": {"pool": "p"}}}
SPECS: dict[str, list[dict[str, Any]]] = {
    "all": [{"maxUnavailable": 2}, {"maxUnavailable": 1}, {"maxUnavailable": "40%"}, {"maxUnavailable": 0}],
    "pool": [{**POOL, "maxUnavailable": "50%"}, {**POOL, "maxUnavailable": 1, "surfaces": ["nodemaintenance"]}],
    "zone": [{"topologyKey": "zone"}, {"topologyKey": "zone", "maxDomains": 2, "maxUnavailable": 3}],
    "rack": [{**POOL, "topologyKey": "rack"}, {"topologyKey": "zone", "surfaces": ["profiles"]}],
    "time": [
        {"windows": [{"schedule": "*/10 * * * *", "duration": "4m"}]},
        {"maxUnavailable": 1, "windows": [{"schedule": "*/7 * * * *", "duration": "3m", "type": "Deny"}]},
    ],
    # Which nodes it is about cannot be read, and can be.
    "lost": [{"selector": {"matchLabels": {"x": "not a label"}}}],
    "pick": [{**POOL, "maxUnavailable": -1}],
}
BROKEN = {"lost", "pick"}
# So many that a node waits before all of them as one set, rather than before each way to fit.
DOMAINS: dict[str, list[dict[str, Any]]] = {
    "domains-0": [{"topologyKey": "zone", "maxDomains": 2}, {"topologyKey": "zone", "maxDomains": 3}],
    "domains-1": [{"topologyKey": "pool"}, {"topologyKey": "zone"}],
    "domains-2": [{**POOL, "topologyKey": "zone", "maxDomains": 2}, {**POOL, "topologyKey": "rack"}],
    "domains-3": [{"selector": {"matchLabels": {"pool": "q"}}, "topologyKey": "zone"}],
    "domains-4": [{"topologyKey": "zone", "surfaces": ["profiles"]}, {"topologyKey": "pool", "maxUnavailable": 2}],
}


def works(surface: str, want: Want) -> Decider:
    """Take a node out of service that wants it once granted, and bring it back when told to, unless another surface has it."""
    (other,) = SURFACES.keys() - {surface}

    def decide(key: Key, view: View, now: datetime) -> Decision:
        row = view.get(key, NodeRow)
        state = row.labels.get(surface) if row is not None else None
        if row is None or state not in ("wanted", *BUSY):
            return NOTHING
        since = at(float(row.labels.get("since", "0")))
        claim = Claim(key, key, frozenset({want, Want.EXCLUSIVE}), since=since, begun=state in BUSY)
        if want is Want.DRAIN:
            # As NodeMaintenance does it: the drain does not wait for the turn.
            claim = msgspec.structs.replace(claim, wants=frozenset({want}))
        step: tuple[Action, ...] = ()
        if state == "leaving":
            release = (Release(key, surface),) if row.labels.get(other) not in BUSY else ()
            step = (Label(key, surface, "done"), *release)
        elif state == "wanted" and is_granted(view, surface, claim):
            step = (Label(key, surface, "in"), KeepCordoned(key, surface, is_visible=True))
        return Decision((step,) if step else (), claims=(claim,))

    return Decider(surface, "Node", decide)


class Fleet(Walk):
    def __init__(self, tape: bytes, specs: dict[str, list[dict[str, Any]]]) -> None:
        super().__init__(tape)
        self.specs = specs
        self.world = Cluster(*map(self.fresh, ZONES))
        self.answers: dict[int, Answer] = {}
        self.wrong: list[str] = []
        for _ in range(3):
            self.budget_changes()
        for name in specs.keys() & DOMAINS.keys():
            self.world.put(budget(name, **specs[name][0]))
        self.start()

    def fresh(self, name: str) -> NodeRow:
        labels = {**dict.fromkeys(SURFACES, "wanted"), "pool": "p" if name in "abcf" else "q", "zone": ZONES[name]}
        return node(name, labels={label: value for label, value in labels.items() if value})

    def start(self) -> None:
        self.answers.clear()
        surfaces = [works(surface, want) for surface, want in SURFACES.items()]
        judge = arbiter(Rules(tuple(SURFACES), budgets=True))
        watched = msgspec.structs.replace(judge, decide=lambda *asked: self.watch_over(judge, *asked))
        self.desk = Desk(RULER, KEEPER, *surfaces, watched, TELLER, world=self.world, kinds=("Node", KIND))
        self.desk.now = at(0)
        self.desk.begin()

    def watch_over(self, judge: Decider, key: Key, view: View, now: datetime) -> Decision:
        """Assert at the instant of every grant that the node fits into all budgets, alone or beside one that has begun."""
        decision = judge.decide(key, view, now)
        opinion = Opinion(self.desk.store, BROKEN)
        holds = {grant_key(hold.key): hold for hold in opinion.holds if hold.claim.node == key}
        told = [holds[grant.key] for grant in decision.grants if grant.granted]
        new = [hold for hold in told if not opinion.granted(hold)]
        kept = any(opinion.granted(hold) for hold in told)
        alone = [opinion.objections(hold, now, joins=False) - {"?"} for hold in new]
        if new and not kept and all(alone):
            self.wrong.append(f"{key} exceeds a budget: {alone}")
        beside = {hold.key: opinion.objections(hold, now, joins=True) - {"?"} for hold in new}
        self.wrong += [f"{hold} begins while it must not: {why}" for hold, why in beside.items() if why]
        return decision

    def moves(self) -> Sequence[Move]:
        serving = [self.server_serves] * 4 * any(request.id not in self.answers for request in self.desk.tray)
        answers = [self.answer_arrives] * 4 * bool(self.answers)
        people = [self.is_wanted, self.leaves, self.leaves, self.person_cordons, self.node_fails, self.is_made_anew]
        rare = [
            self.budget_changes,
            self.restart,
            self.leadership_changes,
            self.budgets_are_lost,
            self.budgets_are_back,
        ]
        return [self.watch, self.watch, self.time_passes, *people, *rare, *serving, *answers]

    def watch(self) -> None:
        self.desk.watch(self.tape.pick((1, 3, 9)))

    def time_passes(self) -> None:
        self.desk.wait(self.tape.pick((0.01, 1.0, 6.0, 97.0, 411.0)))

    def is_wanted(self) -> None:
        key, surface = self.some_node(), self.tape.pick(tuple(SURFACES))
        if self.world.objects[key].labels.get(surface) not in BUSY:
            self.world.label(key, **{surface: "wanted", "since": self.tape.pick(("0", "5", "9"))})

    def leaves(self) -> None:
        inside = [(key, surface) for key in self.nodes() for surface in SURFACES if self.state(key, surface) == "in"]
        if inside:
            key, surface = self.tape.pick(inside)
            self.world.label(key, **{surface: "leaving"})

    def person_cordons(self) -> None:
        self.change(self.some_node(), unschedulable=self.tape.pick((True, False)))

    def node_fails(self) -> None:
        self.change(self.some_node(), conditions=(("Ready", self.tape.pick(("True", "Unknown"))),))

    def is_made_anew(self) -> None:
        key = self.some_node()
        self.world.delete(key)
        self.world.put(self.fresh(key.name))

    def budget_changes(self) -> None:
        name = self.tape.pick(tuple(self.specs))
        spec = self.tape.pick((*self.specs[name], None))
        made = budget(name, **(spec or {}))
        if spec is None:
            self.world.delete(made.key)
        else:
            self.world.put(made)

    def budgets_are_lost(self) -> None:
        self.desk.store.set_listing("", KIND, Listing.UNREADABLE, FORBIDDEN)
        self.desk.run()

    def budgets_are_back(self) -> None:
        self.desk.store.set_listing("", KIND, Listing.LISTED)
        self.desk.run()

    def server_serves(self) -> None:
        request = self.tape.pick([request for request in self.desk.tray if request.id not in self.answers])
        fate = self.tape.pick(("200", "200", "200", *FATES))
        self.answers[request.id] = self.world.meet(request.body, fate)

    def answer_arrives(self) -> None:
        request = self.tape.pick([request for request in self.desk.tray if request.id in self.answers])
        self.desk.answer(request, self.answers.pop(request.id))

    def restart(self) -> None:
        self.start()

    def leadership_changes(self) -> None:
        self.desk.kernel.follow()
        for request in list(self.desk.tray):
            self.desk.answer(request, self.answers.pop(request.id, Lost("gave up")))
        self.desk.watch()
        self.desk.kernel.lead()
        self.desk.run()

    def check(self) -> None:
        """Assert that every subject that waits for a budget does so for a reason that holds at this moment."""
        assert not self.desk.failed
        assert not self.wrong
        opinion = Opinion(self.desk.store, BROKEN)
        for hold in opinion.holds:
            grant = self.desk.store.row(grant_key(hold.key))
            assert isinstance(grant, Grant)
            assert grant.granted or not hold.claim.begun, "what has begun is refused"
            codes = {reason.code for reason in grant.reasons}
            if codes and codes <= CODES:
                joins = opinion.held(hold.claim.node)
                assert opinion.objections(hold, self.desk.now, joins=joins), f"{hold.key} waits in vain: {codes}"

    def finish(self) -> None:
        """Stop all faults, mend the fleet and open all windows, and assert that every subject gets its turn."""
        while self.answers:
            self.answer_arrives()
        self.budgets_are_back()
        for key in self.nodes():
            keeps = any(self.state(key, surface) in BUSY for surface in SURFACES)
            self.change(key, conditions=(("Ready", "True"),), unschedulable=keeps)
        for row in [row for row in self.world.objects.values() if isinstance(row, NodeBudgetRow)]:
            if row.key.name in {*BROKEN, "time"} or row.spec.get("maxUnavailable") == 0:
                self.world.delete(row.key)
        for _ in range(40):
            self.desk.settle()
            self.check()
            self.statuses_are_current()
            inside = [
                (key, surface) for key in self.nodes() for surface in SURFACES if self.state(key, surface) == "in"
            ]
            for key, surface in inside:
                self.world.label(key, **{surface: "leaving"})
            if not inside:
                break
        assert {self.state(key, surface) for key in self.nodes() for surface in SURFACES} <= {"done"}
        assert not self.desk.store.keys("", HOLD)
        assert not self.desk.store.keys("", GRANT)

    def statuses_are_current(self) -> None:
        opinion = Opinion(self.desk.store, BROKEN)
        for row in [row for row in self.world.objects.values() if isinstance(row, NodeBudgetRow)]:
            grants = [self.desk.store.row(grant_key(hold.key)) for hold in opinion.holds]
            reasons = [{reason.subject for reason in grant.reasons} for grant in grants if isinstance(grant, Grant)]
            assert row.status["waiting"]["count"] == sum(row.key in subjects for subjects in reasons)
            assert row.status["used"] == len({holder["node"] for holder in row.status["holders"]})

    def nodes(self) -> list[Key]:
        return [node_key(name) for name in ZONES]

    def some_node(self) -> Key:
        return node_key(self.tape.pick(tuple(ZONES)))

    def state(self, key: Key, surface: str) -> str | None:
        return self.world.objects[key].labels.get(surface)

    def change(self, key: Key, **fields: Any) -> None:
        self.world.put(msgspec.structs.replace(self.world.objects[key], **fields))


@settings(max_examples=examples(70), deadline=None, derandomize=True)
@given(tapes(60, 140))
def test_no_budget_is_exceeded_and_no_place_stands_idle(tape: bytes) -> None:
    Fleet(tape, SPECS).go()


@settings(max_examples=examples(70), deadline=None, derandomize=True)
@given(tapes(60, 140))
def test_the_same_holds_of_many_budgets_with_domains(tape: bytes) -> None:
    Fleet(tape, DOMAINS).go()
