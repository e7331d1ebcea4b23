"""Objects of both groups in any order: each version runs once on a node, however often the unit is renamed or edited."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT, SKYHOOK, Group
from haulout.surfaces.packages.options import Options
from tests.build.examples import FULL
from tests.build.skyhooks import pkg
from tests.build.units import Units

PACKAGES = {"base": pkg(interrupt={"type": "noop"})}
STAGES = ["base/apply", "base/config", "base/interrupt", "base/post-interrupt"]
ACTS = st.sampled_from(["create", "delete", "pause", "resume", "restart"])
VERSIONS = ("1.0.0", "1.1.0", "1.2.0")


def act(ops: Units, what: str, group: Group) -> None:
    """Do one thing to the object of a group, where that is possible. The last object is never deleted."""
    own, others = ops.object(group), [each for each in GROUPS if each is not group]
    is_live = own is not None and "deletionTimestamp" not in own["metadata"]
    has_other = any((found := ops.object(each)) and "deletionTimestamp" not in found["metadata"] for each in others)
    match what:
        case "create" if own is None:
            ops.create(group, PACKAGES)
        case "delete" if is_live and has_other:
            ops.remove(group)
        case "pause" | "resume" if is_live:
            ops.annotate(group, pause="true" if what == "pause" else None)
        case "restart":
            ops.begin()


@settings(max_examples=60 if FULL else 12, deadline=None)
@given(st.lists(st.tuples(ACTS, st.sampled_from(GROUPS), st.integers(0, 4)), max_size=10), st.sampled_from(GROUPS))
def test_nothing_runs_twice_in_any_order(acts: list[tuple[str, Group, int]], first: Group) -> None:
    ops = Units().create(first, PACKAGES)
    for what, group, seconds in acts:
        act(ops, what, group)
        ops.run(seconds)
    live = [group for group in (SKYHOOK, NODEWRIGHT) if ops.object(group) is not None]
    for group in live:
        ops.annotate(group, pause=None)
    ops.run(120)
    live = [group for group in (SKYHOOK, NODEWRIGHT) if ops.object(group) is not None]
    assert [ops.counts(group) for group in live] == [("complete", "1/1")] * len(live)
    # A pause of a NodeWright stops a stage, which then runs once more.
    assert list(dict.fromkeys(ops.trail())) == STAGES
    paused = sum(what == "pause" for what, _, _ in acts)
    assert len(ops.trail()) <= len(STAGES) + paused
    assert not ops.node("n0")["spec"].get("unschedulable")
    assert [bool(ops.keys("n0", group)) for group in GROUPS] == [group in live for group in GROUPS]
    assert ops.owners() <= {group.kind for group in live}
    assert ops.failures == []


def edit(ops: Units, group: Group, version: str) -> None:
    """Give the object of a group this version of the package; create it if there is none."""
    own = ops.object(group)
    if own is None:
        ops.create(group, {"base": pkg(version, interrupt={"type": "noop"})})
    elif "deletionTimestamp" not in own["metadata"]:
        ops.change(group, {"spec": {"packages": {"base": {"version": version}}}})


EDITS = st.tuples(st.sampled_from(["edit", "delete", "pause", "resume", "restart"]), st.sampled_from(GROUPS))


@settings(max_examples=40 if FULL else 10, deadline=None)
@given(
    st.lists(st.tuples(EDITS, st.sampled_from(VERSIONS), st.integers(0, 5)), max_size=10),
    st.sampled_from(GROUPS),
    st.sampled_from(VERSIONS),
)
def test_the_spec_of_the_leader_is_carried_out_in_the_end(
    acts: list[tuple[tuple[str, Group], str, int]], first: Group, last: str
) -> None:
    """Whatever was edited, deleted and interrupted before, and whatever the other object asks for."""
    ops = Units()
    edit(ops, first, VERSIONS[0])
    for (what, group), version, seconds in acts:
        edit(ops, group, version) if what == "edit" else act(ops, what, group)
        ops.run(seconds)
    ops.run(240)
    live = [group for group in GROUPS if ops.object(group) is not None]
    leader = NODEWRIGHT if NODEWRIGHT in live else SKYHOOK
    edit(ops, leader, last)
    for group in live:
        ops.annotate(group, pause=None)
    ops.run(240)
    assert [ops.counts(group) for group in live] == [("complete", "1/1")] * len(live)
    assert [ops.entries("n0", group) for group in live] == [{f"base|{last}": "post-interrupt/complete"}] * len(live)
    differs = len(live) == 2 and version_of(ops, SKYHOOK) != last
    assert (ops.has_condition(SKYHOOK, "Superseded") is not None) == differs
    assert not ops.node("n0")["spec"].get("unschedulable")
    before = len(ops.writes)
    ops.run(120)
    assert ops.writes[before:] == []
    assert ops.failures == []


ANYTHING = st.sampled_from(
    ["edit", "configure", "delete", "pause", "disable", "resume", "restart", "fail", "hang", "succeed"]
)
FATES = {"fail": "fail", "hang": "hangs", "succeed": "ok"}


def do_anything(ops: Units, what: str, group: Group, version: str) -> None:
    """Do one thing to the object of a group, or to the pods from then on. Also the last object may be deleted."""
    found = ops.object(group)
    is_live = found is not None and "deletionTimestamp" not in found["metadata"]
    match what:
        case "edit" | "restart":
            edit(ops, group, version) if what == "edit" else act(ops, what, group)
        case "configure" if is_live:
            ops.change(group, {"spec": {"packages": {"base": {"configMap": {"a": version}}}}})
        case "delete" if is_live:
            ops.remove(group)
        case "pause" | "disable" if is_live:
            ops.annotate(group, **{what: "true"})
        case "resume" if is_live:
            ops.annotate(group, pause=None, disable=None)
        case "fail" | "hang" | "succeed":
            ops.fate = lambda about: FATES[what]


# Jobs that have failed for good expire after a day.
LONG = 26 * 3600


@settings(max_examples=40 if FULL else 6, deadline=None)
@given(
    st.lists(st.tuples(ANYTHING, st.sampled_from(GROUPS), st.sampled_from(VERSIONS), st.integers(0, 6)), max_size=12),
    st.sampled_from(["byKind", "jobs"]),
)
def test_whatever_happens_a_unit_completes_and_can_be_deleted(
    acts: list[tuple[str, Group, str, int]], executor: str
) -> None:
    ops = Units(Options(executor=executor), nodes=2)
    edit(ops, SKYHOOK, VERSIONS[0])
    for what, group, version, seconds in acts:
        do_anything(ops, what, group, version)
        ops.run(seconds)
    live = [group for group in GROUPS if (found := ops.object(group)) and "deletionTimestamp" not in found["metadata"]]
    for group in GROUPS:
        do_anything(ops, "resume", group, "")
    ops.fate = lambda about: "ok"
    for about in ops.pods():
        ops.finish(about)
    ops.run(LONG)
    assert [ops.counts(group) for group in GROUPS] == [
        ("complete", "2/2") if group in live else (None, None) for group in GROUPS
    ]
    for group in live:
        ops.remove(group)
    ops.run(120)
    assert [ops.object(group) for group in GROUPS] == [None, None]
    assert not any(ops.node(name)["spec"].get("unschedulable") for name in ("n0", "n1"))
    left = {key.rpartition("/")[2] for name in ("n0", "n1") for group in GROUPS for key in ops.keys(name, group)}
    assert left <= {"nodeState_demo"}
    assert ops.failures == []


def version_of(ops: Units, group: Group) -> str:
    found = ops.object(group)
    assert found is not None
    return str(found["spec"]["packages"]["base"]["version"])
