"""Our operator takes over what the original has left: it writes what is due, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from haulout.embedded import NODES
from haulout.surfaces.packages.options import STAMP_VERSION
from tests.build.original import NAME, NODE, Original, entry
from tests.build.skyhooks import SKYHOOKS, P, Skyhooks, pkg

REBOOT = {"type": "reboot"}


# Our own status says more than the original's, and the original keeps no record of what it applied: each is due once.
DUE_ONCE = (("Change", "Skyhook/status"), ("Create", "AppliedPackages"))


def other_writes(ops: Skyhooks) -> list[tuple[str, str]]:
    """Return the writes apart from those that are due once."""
    assert all(ops.writes.count(each) <= 1 for each in DUE_ONCE)
    return [each for each in ops.writes if each not in DUE_ONCE]


def finished(ops: Skyhooks) -> list[str]:
    """Let the pods succeed. Return the stages that were started by us until the Skyhook was complete."""
    ops.fate = lambda about: "ok"
    for about in ops.pods():
        ops.finish(about)
    ops.run(60)
    assert ops.phase(NAME) == "complete"
    assert not ops.node(NODE)["spec"].get("unschedulable")
    return [about.stage for about in ops.made]


def test_what_is_complete_stays_as_it_is() -> None:
    ops = Original(pkg()).stands("complete", entry("config", "complete")).taken_over(60)
    assert other_writes(ops) == []
    ops.begin()
    before = len(ops.writes)
    ops.run(60)
    assert ops.writes[before:] == []


def test_what_is_complete_after_an_interrupt_stays_as_it_is() -> None:
    ops = Original(pkg(interrupt=REBOOT)).stands("complete", entry("post-interrupt", "complete")).taken_over(60)
    assert (other_writes(ops), ops.made) == ([], [])


def test_what_waits_is_begun() -> None:
    ops = Original(pkg()).stands("waiting", None).taken_over(1)
    assert finished(ops) == ["apply", "config"]


def test_a_running_pod_is_left_alone_and_its_end_counts() -> None:
    ops = Original(pkg()).stands("in_progress", entry("apply", "in_progress")).runs("apply").taken_over()
    assert (other_writes(ops), ops.made) == ([], [])
    assert finished(ops) == ["config"]


def test_between_two_stages_the_next_one_begins() -> None:
    ops = Original(pkg()).stands("in_progress", entry("apply", "complete")).taken_over(1)
    assert finished(ops) == ["config"]


def failing(name: str) -> dict[str, Any]:
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    return {"name": name, "image": "", "imageID": "", "ready": False, "restartCount": 3, "state": state}


def test_a_failing_pod_is_left_to_itself() -> None:
    original = Original(pkg()).stands("erroring", entry("config", "erroring", restarts=3))
    ops = original.runs("config", [failing("base-init")]).taken_over(60)
    assert (other_writes(ops), ops.made) == ([], [])
    assert (ops.shows(NAME, NODE), finished(ops)) == (["erroring"], [])


def test_a_lost_interrupt_pod_is_made_again_on_the_cordoned_node() -> None:
    """A reboot has taken it along."""
    original = Original(pkg(interrupt=REBOOT)).stands("in_progress", entry("interrupt", "in_progress"), cordoned=True)
    ops = original.taken_over(0.5)
    assert ops.node(NODE)["spec"]["unschedulable"]
    assert finished(ops) == ["interrupt", "post-interrupt"]


def test_a_running_interrupt_is_not_repeated() -> None:
    original = Original(pkg(interrupt=REBOOT)).stands("in_progress", entry("interrupt", "in_progress"), cordoned=True)
    ops = original.runs("interrupt").taken_over()
    assert (other_writes(ops), ops.made) == ([], [])
    assert finished(ops) == ["post-interrupt"]


def test_after_an_interrupt_only_the_rest_runs() -> None:
    original = Original(pkg(interrupt=REBOOT)).stands("in_progress", entry("interrupt", "complete"), cordoned=True)
    assert finished(original.taken_over(0.5)) == ["post-interrupt"]


def test_an_upgrade_goes_on_and_drops_the_old_version() -> None:
    state = {**entry("config", "complete", "1.0.0"), **entry("upgrade", "in_progress", "1.1.0")}
    ops = Original(pkg("1.1.0")).stands("in_progress", state).taken_over(0.5)
    assert finished(ops) == ["upgrade", "config"]
    assert ops.state(NODE, NAME) == {"base|1.1.0": "config/complete"}


def test_entries_without_images_are_filled_in() -> None:
    """Operators before v0.8 kept them so; what was done is not done again."""
    original = Original(pkg())
    (old,) = entry("config", "complete").values()
    original.stands("complete", {"base": {**old, "image": ""}})
    original.ops.change_node(NODE, {"metadata": {"annotations": {f"{P}version_{NAME}": "v0.7.2"}}})
    ops = original.taken_over(60)
    stored = json.loads(ops.annotation(NODE, f"nodeState_{NAME}") or "")
    assert (stored, ops.made) == (entry("config", "complete"), [])


def test_it_happens_while_the_skyhook_is_paused_as_well() -> None:
    ops = Skyhooks()
    old = {"name": "base", "version": "1.0.0", "stage": "config", "state": "complete"}
    other = {"name": "gone", "version": "1.0.0", "stage": "config", "state": "complete"}
    text = json.dumps({"base": old, "gone|1.0.0": other})
    ops.change_node(NODE, {"metadata": {"annotations": {f"{P}nodeState_{NAME}": text}}})
    kinds = ("Old", "NotReady")
    conditions = [{"type": f"{P}{NAME}/{kind}", "status": "True", "reason": "Incomplete"} for kind in kinds]
    ops.world.objects.patch(NODES, "", NODE, {"status": {"conditions": conditions}}, subresource="status")
    ops.make(NAME, {"base": pkg()}, annotations={f"{P}pause": "true"}).run(30)
    assert (ops.phase(NAME), ops.shows(NAME, NODE), ops.refusals) == ("paused", ["paused"], [])
    assert json.loads(ops.annotation(NODE, f"nodeState_{NAME}") or "") == entry("config", "complete")
    assert ops.annotation(NODE, f"version_{NAME}") == ops.get(NAME)["metadata"]["annotations"][f"{P}version"]
    shown = {each["type"]: each["status"] for each in ops.node(NODE)["status"]["conditions"]}
    assert shown == {f"{P}{NAME}/NotReady": "False", f"{P}{NAME}/Erroring": "False"}


@pytest.mark.parametrize(
    ("before", "after"),
    [("v0.7.6", STAMP_VERSION), ("v0.8.0", "v0.8.0"), ("v0.13.0", "v0.13.0"), ("dev", "dev")],
)
def test_the_stamp_of_a_skyhook_is_renewed_where_the_command_line_would_refuse_it(before: str, after: str) -> None:
    ops = Skyhooks().make(NAME, {"base": pkg()}, annotations={f"{P}version": before}).run(30)
    assert (ops.phase(NAME), ops.get(NAME)["metadata"]["annotations"][f"{P}version"]) == ("complete", after)


def test_a_deletion_is_brought_to_its_end() -> None:
    original = Original(pkg(interrupt=REBOOT)).stands("in_progress", entry("config", "complete"), cordoned=True)
    original.ops.delete(NAME)
    ops = original.taken_over(10)
    assert ops.world.objects.get(SKYHOOKS, "", NAME) is None
    assert (ops.made, ops.node(NODE)["spec"].get("unschedulable")) == ([], None)


@pytest.mark.parametrize("switch", ["pause", "disable"])
def test_what_is_switched_off_in_the_middle_stays_as_it_is(switch: str) -> None:
    original = Original(pkg(interrupt=REBOOT))
    original.ops.edit(NAME, {"metadata": {"annotations": {f"{P}{switch}": "true"}}})
    word = {"pause": "paused", "disable": "disabled"}[switch]
    ops = original.stands(word, entry("config", "complete"), cordoned=True).taken_over(60)
    assert (other_writes(ops), ops.made) == ([], [])
    ops.edit(NAME, {"metadata": {"annotations": {f"{P}{switch}": None}}})
    assert finished(ops) == ["interrupt", "post-interrupt"]


def test_a_downgrade_uninstalls_first_and_then_applies() -> None:
    state = {**entry("uninstall", "in_progress", "1.1.0"), **entry("uninstall", "skipped", "1.0.0")}
    ops = Original(pkg("1.0.0")).stands("in_progress", state).taken_over(0.5)
    assert finished(ops) == ["uninstall", "apply", "config"]
    assert ops.state(NODE, NAME) == {"base|1.0.0": "config/complete"}
