"""Objects of both groups in any order: each version runs once on a node, however often the unit is renamed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT, SKYHOOK, Group
from tests.build.examples import FULL
from tests.build.skyhooks import pkg
from tests.build.units import Units

PACKAGES = {"base": pkg(interrupt={"type": "noop"})}
STAGES = ["base/apply", "base/config", "base/interrupt", "base/post-interrupt"]
ACTS = st.sampled_from(["create", "delete", "pause", "resume", "restart"])


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
