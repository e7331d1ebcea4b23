"""K6, K8 and K9 of the toy surface and of profiles, and of the checks of these rules themselves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import CONFIG, OUTCOME, View
from haulout.core.action import Annotate, Label, Send
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.holds import Claim, is_granted
from haulout.kernel.rooms import Subject
from haulout.kernel.wakes import Reports
from haulout.surfaces.profiles.load import known_plugins, load
from haulout.surfaces.profiles.surface import DECIDER as PROFILES
from haulout.surfaces.profiles.wire import DATA_ANNOTATION, PROFILE_LABEL, STATE_LABEL, State
from tests.build.desk import Cluster, Desk
from tests.build.honesty import assert_claims_ignore_grants, assert_quiescent, assert_until_is_honest
from tests.build.rows import START, at, node
from tests.build.toy import roll

A = node_key("a")


def store_of(*rows: NodeRow) -> Store:
    store = Store()
    store.begin_list("", "Node")
    for row in rows:
        store.put(row)
    store.end_list("", "Node", 1)
    store.pass_time(START)
    return store


# The checkers find what they look for

Judge = Callable[[NodeRow, View, datetime], Decision]


def decider(judge: Judge) -> Decider:
    def decide(key: Key, view: View, now: datetime) -> Decision:
        row = view.get(key, NodeRow)
        return judge(row, view, now) if row else NOTHING

    return Decider("dishonest", "Node", decide)


def too_late(row: NodeRow, view: View, now: datetime) -> Decision:
    return Decision(actions=((Label(A, "x", "1"),),)) if now >= at(5) else Decision(until=at(6))


def never(row: NodeRow, view: View, now: datetime) -> Decision:
    return Decision(claims=(Claim(A, A),)) if now >= at(5) else NOTHING


def ages(row: NodeRow, view: View, now: datetime) -> Decision:
    return Decision(actions=((Label(A, "age", str((now - START).seconds)),),))


def hurries(row: NodeRow, view: View, now: datetime) -> Decision:
    return Decision(until=START)


@pytest.mark.parametrize("judge", [too_late, never, ages, hurries])
def test_k6_a_dishonest_until_is_found(judge: Judge) -> None:
    with pytest.raises(AssertionError):
        assert_until_is_honest(decider(judge), store_of(node("a")), A, START)


def on_time(row: NodeRow, view: View, now: datetime) -> Decision:
    return Decision(actions=((Annotate(A, "since", now.isoformat()),),)) if now > at(5) else Decision(until=at(5))


def test_k6_an_honest_until_passes_also_where_texts_say_when() -> None:
    assert_until_is_honest(decider(on_time), store_of(node("a")), A, START, [at(1), at(4.999), at(5.001)])
    assert_until_is_honest(decider(on_time), store_of(node("a")), A, at(6))


def claims_what_it_got(row: NodeRow, view: View, now: datetime) -> Decision:
    first, second = Claim(A, A), Claim(A, A, slot="second")
    return Decision(claims=(first, second) if is_granted(view, "dishonest", first) else (first,))


def lets_go_when_granted(row: NodeRow, view: View, now: datetime) -> Decision:
    claim = Claim(A, A)
    return Decision(claims=() if is_granted(view, "dishonest", claim) else (claim,))


@pytest.mark.parametrize("judge", [claims_what_it_got, lets_go_when_granted])
def test_k8_claims_that_depend_on_grants_are_found(judge: Judge) -> None:
    with pytest.raises(AssertionError):
        assert_claims_ignore_grants(decider(judge), store_of(node("a")), A, START)


def keeps_time(row: NodeRow, view: View, now: datetime) -> Decision:
    return Decision(actions=((Annotate(A, "checked", now.isoformat()),),))


def counts(row: NodeRow, view: View, now: datetime) -> Decision:
    return Decision(actions=((Label(A, "n", str(int(row.labels.get("n", "0")) + 1)),),))


def keeps_telling(row: NodeRow, view: View, now: datetime) -> Decision:
    name = f"at {now.isoformat()}"
    return Decision(actions=((Send(name, "mail", ""),),)) if view.outcome(name) is None else NOTHING


@pytest.mark.parametrize("judge", [keeps_time, counts, keeps_telling])
def test_k9_a_key_that_keeps_writing_is_found(judge: Judge) -> None:
    with pytest.raises(AssertionError):
        assert_quiescent(decider(judge), store_of(node("a")), A, START)


def test_k9_an_answer_comes_to_rest_and_leaves_the_store_there() -> None:
    store = store_of(node("a", want="yes"))
    assert_quiescent(roll(1), store, A, START)
    row = store.row(A)
    assert isinstance(row, NodeRow)
    assert row.labels["state"] == "in"


class Slowed(Reports):
    def __init__(self) -> None:
        self.slowed: list[tuple[Subject, Key]] = []

    def on_restless(self, subject: Subject, target: Key) -> None:
        self.slowed.append((subject, target))


def test_k9_a_key_that_keeps_writing_what_nobody_else_touches_is_slowed_and_reported() -> None:
    reports = Slowed()
    desk = Desk(decider(counts), world=Cluster(node("a")), reports=reports).begin()
    for _ in range(40):
        for request in list(desk.tray):
            desk.meet(request)
    assert len(desk.handed_out) == 20
    assert {*reports.slowed} == {(Subject("dishonest", A), A)}
    desk.wait(9.9)
    assert len(desk.handed_out) == 20
    desk.wait(0.2)
    assert len(desk.handed_out) == 21


def test_k9_a_key_that_has_much_to_write_at_a_slower_pace_is_left_alone() -> None:
    reports = Slowed()
    desk = Desk(decider(counts), world=Cluster(node("a")), reports=reports).begin()
    for _ in range(60):
        desk.meet(desk.only())
        desk.wait(0.6)
    assert len(desk.handed_out) == 61
    assert not reports.slowed


# The toy surface

states = st.sampled_from(("out", "in", "done"))
instants = st.integers(-10_000, 10_000).map(lambda milliseconds: START + timedelta(milliseconds=milliseconds))


@st.composite
def toy_nodes(draw: st.DrawFn) -> NodeRow:
    labels = draw(st.fixed_dictionaries({}, optional={"want": st.just("yes"), "state": states}))
    return node("a", labels=labels, annotations={"since": draw(instants).isoformat()})


@settings(max_examples=80, deadline=None, derandomize=True)
@given(toy_nodes(), st.sampled_from((None, 1)), instants, st.lists(instants, max_size=4))
def test_k6_k8_k9_of_the_toy_surface(
    row: NodeRow, zone_most: int | None, now: datetime, samples: list[datetime]
) -> None:
    toy, store = roll(1, zone_most=zone_most), store_of(row)
    assert_until_is_honest(toy, store, A, now, samples)
    assert_claims_ignore_grants(toy, store, A, now)
    assert_quiescent(toy, store, A, now)


# The profiles

CHECKS = ("go", "ready", "short", "long", "one", "zone", "young", "busy")
INSTANCES = """
intervals: {requeue: 30s}
instances:
  check:
  - {type: hasLabel, name: go, config: {key: go}}
  - {type: hasLabel, name: ready, config: {key: ready, value: "1"}}
  - {type: wait, name: short, config: {duration: 10s}}
  - {type: wait, name: long, config: {duration: 1h}}
  - {type: maxMaintenance, name: one, config: {max: 1}}
  - {type: maxMaintenance, name: zone, config: {max: 1, groupBy: [zone]}}
  - {type: maxMaintenance, name: young, config: {max: 1, skipAfter: 20s}}
  - {type: maxMaintenance, name: busy, config: {max: 1, profile: q}}
  notify:
  - {type: slack, name: soon, config: {hook: h, channel: c, message: m}, schedule: {type: periodic, config: {interval: 10s}}}
  - {type: slack, name: late, config: {hook: h, channel: c, message: m}, schedule: {type: oneshot, config: {delay: 20s}}}
  - {type: slack, name: day, config: {hook: h, channel: c, message: m}, schedule: {type: scheduled, config: {instant: "10:00", weekdays: [sun]}}}
  trigger:
  - {type: alterLabel, name: mark, config: {key: marked, value: "yes"}}
  - {type: alterLabel, name: clear, config: {key: go, remove: true}}
profiles:
"""

# Mostly what can pass or has to wait for room: a transition that is never taken shows little.
literal = st.sampled_from(("go", "go", "!ready", "one", "zone", "young", "busy", "short", *CHECKS, "!one", "!short"))
expression = st.lists(st.lists(literal, min_size=1, max_size=2), min_size=1, max_size=2).map(
    lambda either: " || ".join(f"({' && '.join(both)})" for both in either)
)
chain = st.sampled_from(("", "mark", "clear", "mark && clear"))
transition = st.builds(
    lambda check, trigger, following: f'{{check: "{check}", trigger: "{trigger}", next: {following}}}',
    expression,
    chain,
    st.sampled_from(list(State)).map(str),
)
notify = st.sampled_from(("", "", "soon", "late", "day", "soon && late", "day && soon"))
stage = st.builds(
    lambda enter, notify, transitions: (
        f'{{enter: "{enter}", notify: "{notify}", transitions: [{", ".join(transitions)}]}}'
    ),
    chain,
    notify,
    st.lists(transition, min_size=1, max_size=3),
)


@st.composite
def configurations(draw: st.DrawFn) -> str:
    """Return configurations in which each profile does the same in every state, so that something can always happen."""
    stages = {name: draw(stage) for name in "pq"}
    lines = [f"- {{name: {name}, {', '.join(f'{state}: {does}' for state in State)}}}" for name, does in stages.items()]
    return INSTANCES + "\n".join(lines)


@st.composite
def workers(draw: st.DrawFn, name: str) -> NodeRow:
    entries = draw(
        st.dictionaries(
            st.sampled_from("pq"), st.tuples(instants, st.sampled_from(list(State)), st.sampled_from(list(State)))
        )
    )
    written = ",".join(
        f'"{profile}":{{"Transition":"{moved.isoformat()}","Current":"{current}","Previous":"{previous}"}}'
        for profile, (moved, current, previous) in entries.items()
    )
    attached = {PROFILE_LABEL: st.sampled_from(("p--q", "p", "q", "q--p"))}
    labels = {
        STATE_LABEL: st.sampled_from(list(State)).map(str),
        "go": st.just(""),
        "ready": st.sampled_from("01"),
        "zone": st.sampled_from("ab"),
    }
    sent = draw(st.dictionaries(st.sampled_from(("soon", "late", "day")), instants))
    told = ",".join(f'"{name}":"{instant.isoformat()}"' for name, instant in sent.items())
    data = {DATA_ANNOTATION: f'{{"Profiles":{{{written}}},"Notifications":{{{told}}}}}'} if draw(st.booleans()) else {}
    return node(name, labels=draw(st.fixed_dictionaries(attached, optional=labels)), annotations=data)


PLUGINS = known_plugins()


def store_with(config: str, *rows: NodeRow) -> Store:
    store = store_of(*rows)
    value = load(config, PLUGINS, source="maintenance.yaml", environment={})
    store.write(Value(key=Key("", CONFIG, "", PROFILES.name), value=value))
    return store


@settings(max_examples=120, deadline=None, derandomize=True)
@given(configurations(), workers("a"), workers("b"), instants, st.lists(instants, max_size=4))
def test_k6_k8_k9_of_profiles(
    config: str, worker: NodeRow, other: NodeRow, now: datetime, samples: list[datetime]
) -> None:
    store = store_with(config, worker, other)
    # Not an instant that stands in the data: what was written then could not be told from what is written now.
    now += timedelta(microseconds=7)
    store.pass_time(now)
    assert_until_is_honest(PROFILES, store, A, now, samples)
    assert_claims_ignore_grants(PROFILES, store, A, now)
    assert_quiescent(PROFILES, store, A, now)
    assert_quiescent(PROFILES, store, A, now + timedelta(seconds=30), granted=False)


outcomes = st.dictionaries(
    st.integers(0, 3),
    st.tuples(st.sampled_from(("pending", "done", "failed")), instants, st.integers(0, 2)),
    min_size=1,
)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(configurations(), workers("a"), instants, st.lists(instants, max_size=4), outcomes)
def test_k6_k8_k9_of_profiles_with_messages_under_way(
    config: str,
    worker: NodeRow,
    now: datetime,
    samples: list[datetime],
    known: dict[int, tuple[str, datetime, int]],
) -> None:
    store = store_with(config, worker)
    now += timedelta(microseconds=7)
    store.pass_time(now)
    for state, instant, failures in known.values():
        # Whatever is sent next has met that fate before.
        sends = [action for step in PROFILES.decide(A, View(store), now).actions for action in step]
        for send in (action for action in sends if isinstance(action, Send)):
            error = "no" if state == "failed" else ""
            row = Value(
                key=Key("", OUTCOME, "", send.outcome), state=state, value=instant, error=error, failures=failures
            )
            store.write(row)
    assert_until_is_honest(PROFILES, store, A, now, samples)
    assert_claims_ignore_grants(PROFILES, store, A, now)
    assert_quiescent(PROFILES, store, A, now + timedelta(seconds=60))


def test_k6_k8_k9_of_profiles_without_a_valid_configuration() -> None:
    store = store_of(node("a"))
    assert store.table("", "Node").listing is Listing.LISTED
    assert_until_is_honest(PROFILES, store, A, START)
    assert_claims_ignore_grants(PROFILES, store, A, START)
    assert_quiescent(PROFILES, store, A, START)
