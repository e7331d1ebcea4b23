"""The decision of the profiles surface about one node: transitions, chains, failures, limits and events."""

from __future__ import annotations

import itertools
import textwrap
from datetime import datetime, timedelta

import msgspec
import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import MARK, View
from haulout.core.action import Label, Measure, Say, Tell
from haulout.core.arbiter import Rules, arbiter
from haulout.core.decision import Decider, Decision
from haulout.core.holds import Claim, Want, is_granted
from haulout.kernel.requests import Refused
from haulout.plugins.api import CheckInput, Config, Failed, Retry, TriggerInput, Verdict, check, trigger
from haulout.surfaces.profiles.failures import Failing
from haulout.surfaces.profiles.surface import DECIDER
from haulout.surfaces.profiles.wire import (
    DATA_ANNOTATION,
    PROFILE_LABEL,
    STATE_LABEL,
    SURFACE,
    MaintenanceData,
    stamp,
    write_data,
)
from tests.build.checks import hypervisor
from tests.build.desk import Cluster, Desk
from tests.build.profiles import IN_MAINTENANCE, OPERATIONAL, REQUIRED, Profiles, config_text, worker
from tests.build.rows import START, at

STATES = (OPERATIONAL, REQUIRED, IN_MAINTENANCE)
EMPTY = '{"Profiles":{},"Notifications":{}}'
# Round and round by the labels a, b and c.
ROUND = """
- name: p
  operational: {transitions: [{check: a, next: maintenance-required}]}
  maintenance-required: {transitions: [{check: b, next: in-maintenance}]}
  in-maintenance: {transitions: [{check: c, next: operational}]}
"""
# Straight into maintenance by the label a, out of it by c; twice, as p and q.
TWICE = """
- name: p
  operational: {transitions: [{check: a, next: in-maintenance}]}
  in-maintenance: {transitions: [{check: c, next: operational}]}
- name: q
  operational: {transitions: [{check: a, next: in-maintenance}]}
  in-maintenance: {transitions: [{check: d, next: operational}]}
"""


def data(previous: str | None = None, **current: str) -> str:
    """Return the data of a node whose profiles have been in their states since the start."""
    entries = ",".join(
        f'"{name}":{{"Transition":"{stamp(START).text}","Current":"{state}","Previous":"{previous or state}"}}'
        for name, state in current.items()
    )
    return f'{{"Profiles":{{{entries}}},"Notifications":{{}}}}'


class Empty(Config, frozen=True, kw_only=True):
    pass


class Named(Config, frozen=True, kw_only=True):
    name: str


@check("broken", Empty, takes_null=True)
def broken(config: Empty, given: CheckInput) -> Verdict:
    return Verdict(passed=False, error="no answer")


@check("buggy", Empty, takes_null=True)
def buggy(config: Empty, given: CheckInput) -> Verdict:
    raise KeyError(given.node.key.name)


@trigger("refuse", Empty, takes_null=True)
def refuse(config: Empty, given: TriggerInput) -> Failed:
    return Failed("not today")


@trigger("stumble", Empty, takes_null=True)
def stumble(config: Empty, given: TriggerInput) -> NodeRow:
    raise ZeroDivisionError("division by zero")


@trigger("linger", Empty, takes_null=True)
def linger(config: Empty, given: TriggerInput) -> NodeRow | Retry:
    """Succeed once the label is there, and until then write a trace."""
    if "ready" in given.node.labels:
        return given.node
    return Retry("still in progress", msgspec.structs.replace(given.node, labels={**given.node.labels, "trace": ""}))


FOREIGN = (broken, buggy, refuse, stumble, linger)
MORE_CHECKS = "- {type: broken, name: broken}\n- {type: buggy, name: buggy}"
MORE_TRIGGERS = "\n".join(f"- {{type: {name}, name: {name}}}" for name in ("refuse", "stumble", "linger"))


def world(profiles: str, *nodes: NodeRow, checks: str = "") -> Profiles:
    text = config_text(profiles, checks=f"{MORE_CHECKS}\n{textwrap.dedent(checks).strip()}", triggers=MORE_TRIGGERS)
    return Profiles(text, *nodes, more=FOREIGN)


class TestAttaching:
    def test_a_fresh_node_starts_as_operational_with_one_patch_and_no_event(self) -> None:
        profiles = world(ROUND, worker()).settle()
        entry = stamp(START).text
        assert profiles.row().annotations[DATA_ANNOTATION] == (
            f'{{"Profiles":{{"p":{{"Transition":"{entry}","Current":"operational","Previous":"operational"}}}},'
            '"Notifications":{}}'
        )
        assert profiles.state() == OPERATIONAL
        assert len(profiles.writes) == 1
        assert profiles.events == []

    @pytest.mark.parametrize("label", [{}, {PROFILE_LABEL: ""}], ids=["no label", "an empty label"])
    def test_without_a_name_a_node_has_the_default_profile(self, label: dict[str, str]) -> None:
        profiles = world(ROUND, worker(profiles="", labels=label)).settle()
        assert profiles.current() == {"default": OPERATIONAL}

    def test_the_default_profile_can_be_redefined(self) -> None:
        text = "- name: default\n  operational: {transitions: [{check: a, next: maintenance-required}]}"
        profiles = world(text, worker("bare", "", a=""), worker("named", "default--p", a="")).settle()
        assert profiles.current("bare") == {"default": REQUIRED}
        assert profiles.current("named") == {"default": REQUIRED}

    def test_unknown_names_have_no_entry_and_do_not_fall_back_to_the_default(self) -> None:
        profiles = world(ROUND, worker(profiles="ghost--spook")).settle()
        assert profiles.row().annotations[DATA_ANNOTATION] == EMPTY
        assert profiles.state() == OPERATIONAL

    def test_each_unknown_name_is_told_once(self) -> None:
        profiles = world(ROUND, worker(profiles="ghost--p--spook")).settle()
        profiles.label(unrelated="1").settle()
        profiles.label(a="").settle()
        told = [tell for tell in profiles.events if tell.reason == "UnknownMaintenanceProfile"]
        assert [tell.note for tell in told] == [
            "The node asks for profile ghost, which is not configured",
            "The node asks for profile spook, which is not configured",
        ]
        assert {(tell.action, tell.warning, tell.reporter) for tell in told} == {("AttachProfile", True, "maintenance")}
        assert profiles.current() == {"p": REQUIRED}

    def test_an_unknown_name_is_told_although_the_first_patch_was_refused(self) -> None:
        profiles = world(ROUND, worker(profiles="ghost"))
        profiles.desk.run()
        profiles.desk.answer(profiles.desk.only(), Refused(500, "no"))
        profiles.settle()
        assert [tell.reason for tell in profiles.events] == ["UnknownMaintenanceProfile"]

    def test_a_name_is_compared_as_a_whole(self) -> None:
        profiles = world(ROUND, worker(profiles="p---p")).settle()
        assert profiles.current() == {"p": OPERATIONAL}
        assert profiles.notes == ["The node asks for profile -p, which is not configured"]

    def test_detached_the_entry_goes_and_nothing_is_undone(self) -> None:
        profiles = world(TWICE, worker(data=data(p=IN_MAINTENANCE), marked="yes")).settle()
        profiles.label(**{PROFILE_LABEL: None}).settle()
        assert profiles.current() == {"default": OPERATIONAL}
        assert profiles.state() == OPERATIONAL
        assert profiles.row().labels["marked"] == "yes"
        assert profiles.events == []

    def test_relabelled_in_the_middle_the_new_profile_starts_from_the_beginning(self) -> None:
        profiles = world(TWICE, worker(data=data(p=IN_MAINTENANCE))).settle()
        profiles.label(**{PROFILE_LABEL: "q"}).settle()
        assert profiles.current() == {"q": OPERATIONAL}

    def test_deleted_and_created_anew_a_node_starts_from_the_beginning(self) -> None:
        profiles = world(ROUND, worker(a="")).settle()
        assert profiles.current() == {"p": REQUIRED}
        profiles.desk.world.delete(node_key("n"))
        profiles.desk.world.put(worker())
        profiles.desk.watch()
        profiles.settle()
        assert profiles.current() == {"p": OPERATIONAL}

    def test_one_that_is_gone_is_told_of_and_leaves_nothing_behind(self) -> None:
        profiles = world(ROUND, worker("stays")).settle().wait(60)
        desk, size = profiles.desk, profiles.desk.kernel.size()
        for _ in range(2):
            desk.world.put(worker("goes", a=""))
            desk.watch()
            profiles.settle()
            desk.world.delete(node_key("goes"))
            desk.watch()
            profiles.settle().wait(60)
        message = "Could not find node on the API server, maybe it has been deleted?"
        assert [line for line in profiles.lines if line.message == message] == [Say(message, (("node", "goes"),))] * 2
        assert desk.kernel.size() == size

    def test_a_profile_that_is_no_longer_configured_is_frozen_and_goes_on_later(self) -> None:
        profiles = world(TWICE, worker(profiles="p--q", data=data(p=IN_MAINTENANCE, q=OPERATIONAL), a="")).settle()
        assert profiles.current() == {"p": IN_MAINTENANCE, "q": OPERATIONAL}
        profiles.configure(config_text(TWICE.replace("name: p", "name: r")))
        profiles.settle()
        # It neither counts for the state label nor keeps the other profile out.
        assert profiles.current() == {"p": IN_MAINTENANCE, "q": IN_MAINTENANCE}
        profiles.label(d="", a=None).settle()
        assert (profiles.current(), profiles.state()) == ({"p": IN_MAINTENANCE, "q": OPERATIONAL}, OPERATIONAL)
        profiles.configure(config_text(TWICE))
        profiles.settle()
        assert (profiles.current(), profiles.state()) == ({"p": IN_MAINTENANCE, "q": OPERATIONAL}, IN_MAINTENANCE)
        assert profiles.entries()["p"].transition.at == START

    def test_two_names_that_are_the_same_are_one_profile(self) -> None:
        profiles = world(ROUND, worker(profiles="p--p", a="")).settle()
        assert profiles.current() == {"p": REQUIRED}
        assert len([tell for tell in profiles.events if tell.reason == "ChangedMaintenanceState"]) == 1

    def test_a_profile_named_twice_takes_one_step_in_a_pass(self) -> None:
        profiles = world(ROUND, worker(profiles="p--p", data=data(p=IN_MAINTENANCE), c="", a="")).step()
        assert profiles.current() == {"p": OPERATIONAL}
        assert profiles.settle().current() == {"p": REQUIRED}

    def test_an_unknown_name_that_is_there_twice_is_told_once(self) -> None:
        profiles = world(ROUND, worker(profiles="ghost--ghost")).settle()
        assert profiles.notes == ["The node asks for profile ghost, which is not configured"]


class TestMoving:
    @pytest.mark.parametrize(
        ("old", "new"), list(itertools.permutations(STATES, 2)), ids=lambda state: str(state).replace("-", "_")
    )
    def test_any_state_may_follow_any_other(self, old: str, new: str) -> None:
        text = f"- name: p\n  {old}: {{transitions: [{{check: a, trigger: mark, next: {new}}}]}}"
        profiles = world(text, worker(data=data(p=old), a="")).settle()
        assert profiles.current() == {"p": new}
        assert profiles.state() == new
        assert profiles.row().labels["marked"] == "yes"
        assert profiles.entries()["p"].transition.at == START

    def test_a_transition_is_one_patch_with_its_event_and_its_line(self) -> None:
        profiles = world(ROUND, worker(data=data(p=OPERATIONAL))).settle()
        before = len(profiles.writes)
        profiles.label(a="").settle()
        assert len(profiles.writes) == before + 1
        assert profiles.events == [
            Tell(
                node_key("n"),
                "ChangedMaintenanceState",
                "ChangeMaintenanceState",
                "The node is now in the maintenance-required state caused by profile p",
                "maintenance",
            )
        ]
        fields = (("state", REQUIRED), ("profile", "p"), ("node", "n"))
        assert profiles.lines == [Say("Moved node to next state", fields)]

    def test_no_event_tells_of_a_change_that_was_refused(self) -> None:
        profiles = world(ROUND, worker(data=data(p=OPERATIONAL), a=""))
        profiles.desk.run()
        profiles.desk.answer(profiles.desk.only(), Refused(403, "no"))
        assert profiles.events == []

    @pytest.mark.parametrize("events", [pytest.param(0, id="looked up"), pytest.param(None, id="watched")])
    def test_a_move_whose_answer_got_lost_is_told_once_it_is_seen(self, events: int | None) -> None:
        profiles = world(ROUND, worker(data=data(p=OPERATIONAL))).settle()
        profiles.label(a="")
        profiles.desk.meet(profiles.desk.only(), "lost-done")
        assert profiles.events == []
        profiles.desk.watch(events)
        profiles.wait(6).settle()
        assert profiles.notes == ["The node is now in the maintenance-required state caused by profile p"]

    def test_a_move_that_got_lost_is_told_once_it_is_made_up_for(self) -> None:
        profiles = world(ROUND, worker(data=data(p=OPERATIONAL))).settle()
        profiles.label(a="")
        profiles.desk.meet(profiles.desk.only(), "lost")
        profiles.wait(6).settle()
        assert profiles.notes == ["The node is now in the maintenance-required state caused by profile p"]

    def test_every_move_writes_when_it_happened(self) -> None:
        profiles = world(ROUND, worker(data=data(p=OPERATIONAL))).settle()
        profiles.wait(90).label(a="").settle()
        assert profiles.entries()["p"].transition.at == at(90)

    def test_of_several_that_pass_the_first_wins(self) -> None:
        text = """
        - name: p
          operational:
            transitions:
            - {check: a && b, trigger: other, next: in-maintenance}
            - {check: a, trigger: mark, next: maintenance-required}
            - {check: a, next: in-maintenance}
        """
        profiles = world(text, worker(a="")).settle()
        assert profiles.current() == {"p": REQUIRED}

    def test_the_trigger_of_the_transition_that_passed_is_pulled(self) -> None:
        """G2, where the original pulls that of the first with the same next."""
        text = """
        - name: p
          operational:
            transitions:
            - {check: a, trigger: mark, next: maintenance-required}
            - {check: b, trigger: other, next: maintenance-required}
        """
        labels = world(text, worker(b="")).settle().row().labels
        assert "other" in labels
        assert "marked" not in labels

    def test_a_transition_to_the_same_state_keeps_the_later_ones_from_happening(self) -> None:
        text = """
        - name: p
          operational:
            transitions:
            - {check: a, trigger: mark, next: operational}
            - {check: b, next: maintenance-required}
        """
        profiles = world(text, worker(a="", b="")).settle()
        assert profiles.current() == {"p": OPERATIONAL}
        assert "marked" not in profiles.row().labels
        assert profiles.label(a=None).settle().current() == {"p": REQUIRED}

    def test_in_maintenance_never_follows_itself(self) -> None:
        text = """
        - name: p
          in-maintenance:
            transitions:
            - {check: a, next: in-maintenance}
            - {check: a, next: operational}
        """
        assert world(text, worker(data=data(p=IN_MAINTENANCE), a="")).settle().current() == {"p": OPERATIONAL}

    def test_a_trigger_chain_is_pulled_from_left_to_right(self) -> None:
        text = (
            "- name: p\n  operational: {transitions: [{check: a, trigger: clear && mark, next: maintenance-required}]}"
        )
        labels = world(text, worker(a="")).settle().row().labels
        assert labels["marked"] == "yes"
        assert "a" not in labels

    def test_a_trigger_may_change_the_profile_label(self) -> None:
        """G16: what is attached by it starts with the next pass."""
        text = "- name: p\n  operational: {transitions: [{check: a, trigger: swap, next: maintenance-required}]}\n- name: q"
        swap = f"- {{type: alterLabel, name: swap, config: {{key: {PROFILE_LABEL}, value: q}}}}"
        profiles = Profiles(config_text(text, triggers=swap), worker(a="")).settle()
        assert profiles.current() == {"q": OPERATIONAL}
        assert profiles.state() == OPERATIONAL

    def test_a_trigger_may_take_the_profile_label_away(self) -> None:
        text = "- name: p\n  operational: {transitions: [{check: a, trigger: drop, next: in-maintenance}]}"
        drop = f"- {{type: alterLabel, name: drop, config: {{key: {PROFILE_LABEL}, remove: true}}}}"
        profiles = Profiles(config_text(text, triggers=drop), worker(a="")).settle()
        assert profiles.current() == {"default": OPERATIONAL}

    def test_nothing_is_written_without_a_reason(self) -> None:
        profiles = world(ROUND, worker()).settle()
        written = len(profiles.writes)
        profiles.desk.world.heartbeat(node_key("n"))
        profiles.desk.watch()
        profiles.wait(3600)
        assert len(profiles.writes) == written


class TestEntering:
    ENTER = """
    - name: p
      operational: {transitions: [{check: a, next: in-maintenance}]}
      in-maintenance: {enter: mark, transitions: [{check: c, next: operational}]}
    """

    def test_the_enter_chain_follows_in_a_patch_of_its_own(self) -> None:
        profiles = world(self.ENTER, worker(data=data(p=OPERATIONAL), a="")).settle()
        first, second = profiles.writes[-2:]
        assert "marked" not in first.body["metadata"]["labels"]
        assert second.body["metadata"]["labels"] == {"marked": "yes"}
        assert profiles.entries()["p"].previous == IN_MAINTENANCE

    def test_it_is_pulled_once(self) -> None:
        profiles = world(self.ENTER, worker(a="")).settle()
        profiles.label(marked=None).settle()
        assert "marked" not in profiles.row().labels

    def test_it_is_pulled_after_a_restart_that_came_before_it(self) -> None:
        profiles = world(self.ENTER, worker(data=data(OPERATIONAL, p=IN_MAINTENANCE))).settle()
        assert profiles.row().labels["marked"] == "yes"
        assert profiles.entries()["p"].previous == IN_MAINTENANCE

    def test_attached_there_is_nothing_to_enter(self) -> None:
        text = "- name: p\n  operational: {enter: mark}"
        assert "marked" not in world(text, worker()).settle().row().labels

    def test_having_entered_is_stored_although_a_check_fails(self) -> None:
        """G4: or else it would be repeated with every asking."""
        text = "- name: p\n  in-maintenance: {enter: mark, transitions: [{check: broken, next: operational}]}"
        profiles = world(text, worker(data=data(OPERATIONAL, p=IN_MAINTENANCE))).settle()
        assert profiles.entries()["p"].previous == IN_MAINTENANCE
        assert profiles.row().labels["marked"] == "yes"

    def test_an_enter_chain_that_fails_changes_nothing_and_says_so(self) -> None:
        text = "- name: p\n  in-maintenance: {enter: mark && refuse, transitions: [{check: a, next: operational}]}"
        profiles = world(text, worker(data=data(OPERATIONAL, p=IN_MAINTENANCE), a="")).settle()
        assert "marked" not in profiles.row().labels
        assert profiles.entries()["p"].previous == OPERATIONAL
        assert profiles.notes == [
            "Failed to enter state in-maintenance for profile p: Will stay in in-maintenance state"
        ]

    def test_an_enter_chain_in_progress_keeps_what_it_did_and_says_nothing(self) -> None:
        text = "- name: p\n  in-maintenance: {enter: linger && mark, transitions: [{check: a, next: operational}]}"
        profiles = world(text, worker(data=data(OPERATIONAL, p=IN_MAINTENANCE), a="")).settle()
        assert "trace" in profiles.row().labels
        assert "marked" not in profiles.row().labels
        assert (profiles.current(), profiles.events) == ({"p": IN_MAINTENANCE}, [])
        profiles.label(ready="").settle()
        assert profiles.row().labels["marked"] == "yes"
        assert profiles.current() == {"p": OPERATIONAL}


class TestFailing:
    """G3: a profile that fails keeps its state, counts, tells; the others go on."""

    def failing(self, transition: str) -> Profiles:
        text = f"""
        - name: good
          operational: {{transitions: [{{check: a, trigger: mark, next: maintenance-required}}]}}
        - name: bad
          operational: {{transitions: [{transition}]}}
        """
        return world(text, worker(profiles="bad--good", a="")).settle()

    @pytest.mark.parametrize(
        ("transition", "prefix", "error"),
        [
            pytest.param(
                "{check: a && broken, next: in-maintenance}",
                "At least one check plugin failed",
                "had failed transition checks: failed check instances: broken",
                id="a check that cannot answer",
            ),
            pytest.param(
                "{check: a, next: in-maintenance}, {check: broken || buggy || broken, next: in-maintenance}",
                "At least one check plugin failed",
                "had failed transition checks: failed check instances: broken, buggy, broken",
                id="in a transition behind the one that passes",
            ),
            pytest.param(
                "{check: a, trigger: other && refuse, next: in-maintenance}",
                "At least one trigger plugin failed",
                "Trigger instance refuse failed: not today",
                id="a trigger that fails",
            ),
            pytest.param(
                "{check: a, trigger: other && stumble, next: in-maintenance}",
                "At least one trigger plugin failed",
                "Trigger instance stumble failed: ZeroDivisionError: division by zero",
                id="a trigger with a bug",
            ),
        ],
    )
    def test_fails_alone(self, transition: str, prefix: str, error: str) -> None:
        profiles = self.failing(transition)
        assert profiles.current() == {"bad": OPERATIONAL, "good": REQUIRED}
        labels = profiles.row().labels
        assert labels["marked"] == "yes"
        assert "other" not in labels
        failed = [tell for tell in profiles.events if tell.reason == "ChangeMaintenanceStateFailed"]
        assert [tell.note for tell in failed] == [f"{prefix} for profile bad: Will stay in operational state"]
        assert {(tell.action, tell.warning) for tell in failed} == {("ChangeMaintenanceState", False)}
        counter = "maintenance_controller_transition_failure_count"
        assert profiles.counted == [Measure(counter, (("profile", "bad"),))]
        (line,) = [line for line in profiles.lines if line.level == "error"]
        assert line.message == prefix
        assert dict(line.fields) | {"error": error} == dict(line.fields)
        assert profiles.desk.failed == []

    def test_the_line_says_why_a_check_failed(self) -> None:
        profiles = self.failing("{check: a && broken && buggy, next: in-maintenance}")
        (line,) = [line for line in profiles.lines if line.level == "error"]
        causes = {name: value for name, value in line.fields if name.startswith("error of ")}
        assert causes == {"error of broken": "no answer", "error of buggy": "KeyError: 'n'"}

    def test_it_is_told_again_after_it_has_worked_in_between(self) -> None:
        profiles = self.failing("{check: a && broken, next: in-maintenance}")
        fine = config_text("- name: bad\n- name: good")
        broken_again = config_text(
            "- {name: bad, operational: {transitions: [{check: broken, next: in-maintenance}]}}\n- name: good",
            checks=MORE_CHECKS,
        )
        profiles.configure(fine)
        profiles.settle()
        profiles.configure(broken_again)
        profiles.settle()
        assert sum(tell.reason == "ChangeMaintenanceStateFailed" for tell in profiles.events) == 2

    def test_a_trigger_in_progress_keeps_what_it_did_and_counts_as_failing(self) -> None:
        profiles = self.failing("{check: a, trigger: linger, next: in-maintenance}")
        assert "trace" in profiles.row().labels
        assert profiles.current() == {"bad": OPERATIONAL, "good": REQUIRED}
        assert "At least one trigger plugin failed for profile bad: Will stay in operational state" in profiles.notes
        assert profiles.label(ready="").settle().current() == {"bad": IN_MAINTENANCE, "good": REQUIRED}

    def test_an_unknown_state_word_fails_its_profile_alone(self) -> None:
        node = worker(profiles="bad--p", data=data(bad="broken", p=OPERATIONAL), a="")
        profiles = world(f"{ROUND}\n- name: bad", node).settle()
        assert profiles.current() == {"bad": "broken", "p": REQUIRED}
        assert profiles.state() == REQUIRED
        assert "Failed to apply current state for profile bad: Will stay in broken state" in profiles.notes
        (line,) = [line for line in profiles.lines if line.level == "error"]
        assert dict(line.fields)["error"] == (
            'failed to create internal state from unknown label value: node state "broken" is not known '
            "(known: operational, maintenance-required, in-maintenance)"
        )
        assert len(profiles.counted) == 1

    def test_a_node_in_an_unknown_state_alone_gets_no_state_label(self) -> None:
        profiles = world(ROUND, worker(data=data(p="broken"), a="")).settle()
        assert "cloud.sap/maintenance-state" not in profiles.row().labels

    def test_two_separators_in_a_row_name_no_profile(self) -> None:
        profiles = world(ROUND, worker(profiles="p----p")).settle()
        assert not [note for note in profiles.notes if "profile" in note and "not" in note]

    def test_a_check_named_like_a_constant_is_that_constant(self) -> None:
        checks = '- {type: hasLabel, name: "true", config: {key: nowhere}}'
        text = config_text(
            '- {name: p, operational: {transitions: [{check: "true", next: maintenance-required}]}}', checks=checks
        )
        profiles = world(ROUND, worker())
        profiles.configure(text)
        assert profiles.settle().current() == {"p": REQUIRED}

    def test_a_failure_that_lasts_is_published_with_its_beginning(self) -> None:
        profiles = self.failing("{check: a && broken, next: in-maintenance}")
        began = self.marks(profiles)
        assert [value.profile for value in began] == ["bad"]
        profiles.wait(40)
        assert self.marks(profiles) == began
        profiles.configure(config_text("- name: bad\n- name: good"))
        profiles.settle()
        assert not self.marks(profiles)

    def marks(self, profiles: Profiles) -> list[Failing]:
        rows = profiles.desk.store.rows("", MARK)
        return [row.value for row in rows if isinstance(row, Value) and isinstance(row.value, Failing)]

    def test_it_recovers_when_somebody_repairs_the_word(self) -> None:
        profiles = world(ROUND, worker(data=data(p="broken"), a="")).settle()
        assert profiles.annotate(data(p=OPERATIONAL)).settle().current() == {"p": REQUIRED}


class TestStateLabel:
    @pytest.mark.parametrize(
        ("states", "expected"),
        [
            pytest.param((OPERATIONAL, OPERATIONAL), OPERATIONAL, id="none serious"),
            pytest.param((REQUIRED, OPERATIONAL), REQUIRED, id="one required"),
            pytest.param((OPERATIONAL, IN_MAINTENANCE), IN_MAINTENANCE, id="one in maintenance"),
            pytest.param((REQUIRED, IN_MAINTENANCE), IN_MAINTENANCE, id="both"),
        ],
    )
    def test_is_the_most_serious(self, states: tuple[str, str], expected: str) -> None:
        seeded = data(p=states[0], q=states[1])
        assert world("- name: p\n- name: q", worker(profiles="p--q", data=seeded)).settle().state() == expected

    @pytest.mark.parametrize("edited", ["in-maintenance", "", "nonsense", None], ids=str)
    def test_is_put_right_when_somebody_edits_it(self, edited: str | None) -> None:
        profiles = world(ROUND, worker()).settle()
        assert profiles.label(**{STATE_LABEL: edited}).settle().state() == OPERATIONAL


class TestOneAtATime:
    def test_the_first_in_the_label_enters_and_the_second_follows_when_it_has_left(self) -> None:
        """G1, where the original lets both in within one pass."""
        profiles = world(TWICE, worker(profiles="q--p", a="")).settle()
        assert profiles.current() == {"q": IN_MAINTENANCE, "p": OPERATIONAL}
        profiles.label(d="").settle()
        assert profiles.current() == {"q": OPERATIONAL, "p": IN_MAINTENANCE}

    def test_stored_data_never_shows_both(self) -> None:
        profiles = world(TWICE, worker(profiles="p--q", a="", c="", d=""))
        for _ in range(12):
            profiles.step()
            held = list(profiles.current().values()) if DATA_ANNOTATION in profiles.row().annotations else []
            assert held.count(IN_MAINTENANCE) <= 1

    def test_two_that_stand_there_already_both_go_on(self) -> None:
        profiles = world(TWICE, worker(profiles="p--q", data=data(p=IN_MAINTENANCE, q=IN_MAINTENANCE), c="")).settle()
        assert profiles.current() == {"p": OPERATIONAL, "q": IN_MAINTENANCE}


class TestBadData:
    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("garbage", id="no JSON"),
            pytest.param('{"Profiles":', id="cut off"),
            pytest.param("[]", id="a list"),
            pytest.param('"text"', id="a text"),
            pytest.param('{"Profiles":{"p":1}}', id="a number for an entry"),
            pytest.param('{"Profiles":{"p":{"Current":7}}}', id="a number for a state"),
            pytest.param('{"Profiles":{"p":{"Transition":"yesterday"}}}', id="no timestamp"),
            pytest.param('{"Profiles":{},"Extra":1}', id="an unknown key"),
            pytest.param("[" * 100_000, id="too deep"),
        ],
    )
    def test_the_node_is_left_alone_with_one_event_while_its_neighbour_goes_on(self, text: str) -> None:
        profiles = world(ROUND, worker(data=text, a=""), worker("good", a="")).settle()
        profiles.label(unrelated="1").settle()
        assert profiles.row().annotations[DATA_ANNOTATION] == text
        assert profiles.state() is None
        assert profiles.current("good") == {"p": REQUIRED}
        (told,) = [tell for tell in profiles.events if tell.regarding == node_key("n")]
        assert (told.reason, told.action, told.warning) == ("MaintenanceDataInvalid", "ParseMaintenanceData", True)
        assert told.note.startswith("failed to parse json value in data annotation: ")
        assert told.note.endswith("the node is left alone until cloud.sap/maintenance-data is repaired or removed")
        assert [line.message for line in profiles.lines if line.level == "error"] == [
            "Failed to reconcile. Skipping node patching."
        ]

    def test_repaired_the_node_goes_on(self) -> None:
        profiles = world(ROUND, worker(data="garbage", a="")).settle()
        assert profiles.annotate(EMPTY).settle().current() == {"p": REQUIRED}

    @pytest.mark.parametrize(
        ("old", "expected"),
        [
            pytest.param(
                '{"LastTransition":"2022-08-01T10:00:00Z","LastNotificationTimes":{"ops":"2022-08-01T11:00:00Z"},'
                '"ProfileStates":{"p":"maintenance-required"},"PreviousStates":{"p":"operational"}}',
                '{"Profiles":{"p":{"Transition":"2022-08-01T10:00:00Z","Current":"maintenance-required",'
                '"Previous":"maintenance-required"}},"Notifications":{"ops":"2022-08-01T11:00:00Z"}}',
                id="v1",
            ),
            pytest.param(
                '{"LastTransition":"2020-08-01T10:00:00Z","LastNotification":"2020-08-01T11:00:00Z",'
                '"LastNotificationState":"operational"}',
                f'{{"Profiles":{{"p":{{"Transition":"{stamp(START).text}","Current":"operational",'
                '"Previous":"operational"}},"Notifications":{}}',
                id="2020",
            ),
            pytest.param(
                '{ "Notifications": {}, "Profiles": {"p": {"current": "operational", "previous": "operational",'
                ' "transition": "2026-03-01T12:00:00+02:00"}}}',
                '{"Profiles":{"p":{"Transition":"2026-03-01T12:00:00+02:00","Current":"operational",'
                '"Previous":"operational"}},"Notifications":{}}',
                id="formatted otherwise",
            ),
        ],
    )
    def test_older_formats_are_written_back_in_the_present_one(self, old: str, expected: str) -> None:
        """G6 and G20."""
        assert world(ROUND, worker(data=old)).settle().row().annotations[DATA_ANNOTATION] == expected

    @pytest.mark.parametrize("year", ["0001", "9999"])
    def test_any_year_will_do(self, year: str) -> None:
        """Hand-written instants at the ends of time stop no node."""
        seeded = write_data(MaintenanceData()).replace(
            "{}", f'{{"p":{{"Transition":"{year}-12-31T23:59:59.999999Z","Current":"{IN_MAINTENANCE}"}}}}', 1
        )
        checks = """
        - {type: wait, name: long, config: {duration: 2000000h}}
        - {type: wait, name: negative, config: {duration: -2000000h}}
        - {type: maxMaintenance, name: few, config: {max: 5, skipAfter: 2000000h}}
        - {type: maxMaintenance, name: odd, config: {max: 5, skipAfter: -2000000h}}
        """
        text = """
        - name: p
          operational: {transitions: [{check: a && few && odd, next: in-maintenance}]}
          in-maintenance: {transitions: [{check: long && negative && d, next: operational}]}
        """
        profiles = world(text, worker(data=seeded), worker("good", a=""), checks=checks)
        profiles.step().step().step().step()
        assert profiles.inside() == ["good", "n"]
        assert profiles.desk.failed == []

    @pytest.mark.parametrize(("requeue", "seconds"), [("30s", 30.0), ("300ms", 0.3), ("1ms", 0.1), ("-1s", 0.1)])
    def test_the_outside_world_is_not_asked_without_a_pause(self, requeue: str, seconds: float) -> None:
        paces: set[float] = set()

        @check("paced", Empty, takes_null=True)
        def paced(config: Empty, given: CheckInput) -> Verdict:
            paces.add(given.pace_for.total_seconds())
            return Verdict(passed=False)

        profile = "- name: p\n  operational: {transitions: [{check: paced, next: in-maintenance}]}"
        text = config_text(profile, checks="- {type: paced, name: paced}").replace("30s", requeue)
        Profiles(text, worker(), more=(paced,)).settle()
        assert paces == {seconds}

    def test_each_check_learns_whether_it_may_wait(self) -> None:
        may_wait: dict[str, bool] = {}

        @check("noted", Named)
        def noted(config: Named, given: CheckInput) -> Verdict:
            may_wait[config.name] = given.may_wait
            return Verdict(passed=False)

        profile = (
            "- name: p\n  operational: {transitions: [{check: p1 && p2 && (p3 || p4) && p5, next: in-maintenance}]}"
        )
        checks = "\n".join(
            f"- {{type: noted, name: {name}, config: {{name: {name}}}}}" for name in ("p1", "p2", "p3", "p4", "p5")
        )
        text = config_text(profile, checks=checks)
        Profiles(text, worker(), more=(noted,)).settle()
        assert may_wait == {"p1": True, "p2": True, "p3": False, "p4": False, "p5": True}

    def test_a_broken_configuration_stops_everything_and_a_good_one_resumes_it(self) -> None:
        profiles = world(ROUND, worker()).settle()
        profiles.break_config()
        written = len(profiles.writes)
        profiles.label(a="").settle()
        assert len(profiles.writes) == written
        profiles.configure(config_text(ROUND))
        assert profiles.settle().current() == {"p": REQUIRED}

    def test_nothing_is_done_before_the_configuration_has_been_read(self) -> None:
        assert Profiles(None, worker(a="")).settle().writes == []


class TestMisreadAnnotations:
    @pytest.mark.parametrize(
        ("annotation", "value", "note"),
        [
            pytest.param(
                "haulout.dev/priority",
                "high",
                'The annotation haulout.dev/priority is "high": it counts as 0 (a whole number would be right)',
                id="priority",
            ),
            pytest.param(
                "haulout.dev/priority",
                "9" * 5000,
                f'The annotation haulout.dev/priority is "{"9" * 60}...": it counts as 0 (a whole number would be right)',
                id="priority without end",
            ),
            pytest.param(
                "haulout.dev/cordon",
                '{"before":"maybe"}',
                'The annotation haulout.dev/cordon is "{"before":"maybe"}": it counts as absent '
                '({"before":false,"by":[]} would be right)',
                id="cordon",
            ),
            pytest.param(
                "haulout.dev/cordon",
                '{"x":' + "[" * 50_000,
                f'The annotation haulout.dev/cordon is "{{"x":{"[" * 55}...": it counts as absent '
                '({"before":false,"by":[]} would be right)',
                id="cordon without end",
            ),
        ],
    )
    def test_is_told_once_and_stops_nothing(self, annotation: str, value: str, note: str) -> None:
        profiles = world(TWICE, worker(annotations={annotation: value}, a="")).settle()
        profiles.label(unrelated="1").settle()
        assert profiles.current() == {"p": IN_MAINTENANCE}
        (told,) = [tell for tell in profiles.events if tell.reason == "AnnotationInvalid"]
        assert told == Tell(node_key("n"), "AnnotationInvalid", "ReadAnnotation", note, "haulout", warning=True)
        assert [line.level for line in profiles.lines if "annotation" in dict(line.fields)] == ["warning"]

    @pytest.mark.parametrize("value", ["5", "-3", "0"])
    def test_a_number_is_fine(self, value: str) -> None:
        assert world(ROUND, worker(annotations={"haulout.dev/priority": value})).settle().events == []


class TestWaiting:
    CHECKS = "- {type: wait, name: hour, config: {duration: 1h}}"
    TEXT = "- name: p\n  operational: {transitions: [{check: hour, next: maintenance-required}]}"

    def test_time_alone_brings_the_transition(self) -> None:
        profiles = world(self.TEXT, worker(data=data(p=OPERATIONAL)), checks=self.CHECKS).step()
        profiles.wait(3600)
        assert profiles.current() == {"p": OPERATIONAL}
        profiles.wait(1).step()
        assert profiles.current() == {"p": REQUIRED}
        assert profiles.entries()["p"].transition.at - at(3600) < timedelta(seconds=1)

    def test_nobody_is_asked_meanwhile(self) -> None:
        profiles = world(self.TEXT, worker(data=data(p=OPERATIONAL)), checks=self.CHECKS).step()
        asked = profiles.desk.kernel.loop.askings
        profiles.wait(3599)
        assert profiles.desk.kernel.loop.askings == asked


NOT_LISTED = """
- name: checking
  operational: {transitions: [{check: a && hv, next: maintenance-required}]}
- name: going
  operational: {transitions: [{check: a, trigger: mark && down, next: maintenance-required}]}
- name: entering
  operational: {transitions: [{check: a, next: maintenance-required}]}
  maintenance-required: {enter: mark && down, transitions: [{check: a, next: in-maintenance}]}
- name: good
  operational: {transitions: [{check: a, next: maintenance-required}]}
"""


def _also_works(key: Key, view: View, now: datetime) -> Decision:
    """Return another surface, which has something to do on every node."""
    claim = Claim(key, key, frozenset({Want.EXCLUSIVE}))
    goes = is_granted(view, "other", claim)
    return Decision(((Label(key, "worked-on", "yes"),),) if goes else (), claims=(claim,))


class TestBesideAnotherSurface:
    @pytest.mark.parametrize(
        ("stored", "worked_on"), [(IN_MAINTENANCE, False), (REQUIRED, True)], ids=["in the middle", "not yet"]
    )
    def test_a_broken_configuration_leaves_the_node_to_nobody_in_the_middle(self, stored: str, worked_on: bool) -> None:
        profiles = Profiles(None)
        rules = arbiter(Rules((SURFACE, "other"), turns=True))
        nodes = Cluster(worker(data=data(p=stored)))
        profiles.desk = Desk(DECIDER, Decider("other", "Node", _also_works), rules, world=nodes)
        profiles.break_config()
        profiles.desk.feed.list()
        profiles.settle()
        assert ("worked-on" in profiles.row().labels) is worked_on
        profiles.configure(config_text("- name: p"))
        profiles.settle()
        assert ("worked-on" in profiles.row().labels) is worked_on

    @pytest.mark.parametrize(("state", "worked_on"), [(IN_MAINTENANCE, False), (REQUIRED, True)])
    def test_nor_does_data_that_cannot_be_read(self, state: str, worked_on: bool) -> None:
        profiles = Profiles(None)
        rules = arbiter(Rules((SURFACE, "other"), turns=True))
        nodes = Cluster(worker(data="{", labels={STATE_LABEL: state}))
        profiles.desk = Desk(DECIDER, Decider("other", "Node", _also_works), rules, world=nodes)
        profiles.configure(config_text("- name: p"))
        profiles.desk.feed.list()
        profiles.settle()
        assert ("worked-on" in profiles.row().labels) is worked_on


class TestTablesThatAreNotListedYet:
    @pytest.mark.parametrize(
        ("profile", "before", "after"),
        [
            ("checking", OPERATIONAL, REQUIRED),
            ("going", OPERATIONAL, REQUIRED),
            ("entering", REQUIRED, IN_MAINTENANCE),
        ],
    )
    def test_hold_up_nobody_who_does_without(self, profile: str, before: str, after: str) -> None:
        checks = "- {type: checkHypervisor, name: hv, config: {evicted: true}}"
        triggers = "- {type: alterHypervisor, name: down, config: {reboot: true}}"
        text = config_text(NOT_LISTED, checks=checks, triggers=triggers)
        profiles = Profiles(text, worker(profiles=f"{profile}--good", a="")).settle()
        assert profiles.current() == {profile: before, "good": REQUIRED}
        assert profiles.counted == []
        assert not profiles.desk.failed
        world, feed = profiles.desk.world, profiles.desk.feed
        world.put(hypervisor("n", status={"evicted": True}, spec={"reboot": True}))
        feed.kinds = ("Node", "Hypervisor")
        feed.list()
        profiles.settle()
        assert profiles.current() == {profile: after, "good": REQUIRED}


class TestLimits:
    CHECKS = "- {type: maxMaintenance, name: two, config: {max: 2}}"
    TEXT = """
    - name: p
      operational: {transitions: [{check: a && two, next: in-maintenance}]}
      in-maintenance: {transitions: [{check: c, trigger: clear, next: operational}]}
    """

    def test_no_more_than_allowed_whatever_becomes_of_the_writes(self) -> None:
        """G18."""
        names = [f"n{number}" for number in range(10)]
        fates = itertools.cycle(["200", "409", "lost-done", "500", "lost", "200", "429"])
        profiles = world(self.TEXT, *(worker(name, a="", c="") for name in names), checks=self.CHECKS)
        desk = profiles.desk
        for _ in range(300):
            desk.watch(1)
            if desk.tray:
                desk.meet(desk.tray[-1], next(fates))
            desk.wait(0.5)
            assert len(profiles.inside()) <= 2
        profiles.settle()
        assert profiles.inside() == []
        assert not any("a" in profiles.row(name).labels for name in names)

    def test_the_higher_priority_comes_first_then_the_older_claim_then_the_name(self) -> None:
        early = data(p=OPERATIONAL).replace("10:00:00", "09:00:00")
        nodes = (
            worker("a-late", data=data(p=OPERATIONAL), a=""),
            worker("b-late", data=data(p=OPERATIONAL), a=""),
            worker("c-early", data=early, a=""),
            worker("d-urgent", data=data(p=OPERATIONAL), annotations={"haulout.dev/priority": "1"}, a=""),
            worker("e-odd", data=early, annotations={"haulout.dev/priority": "very"}, a=""),
        )
        checks = "- {type: maxMaintenance, name: two, config: {max: 1}}"
        profiles = world(self.TEXT, *nodes, checks=checks).settle()
        order = []
        for _ in nodes:
            (inside,) = profiles.inside()
            order.append(inside)
            profiles.label(inside, c="").settle()
        assert order == ["d-urgent", "c-early", "e-odd", "a-late", "b-late"]

    @pytest.mark.parametrize("check", ["(a && two) || d", "a && (two || d)", "a && !(!two)", "a && two && two"])
    def test_no_more_than_allowed_whatever_the_expression(self, check: str) -> None:
        """G18."""
        text = self.TEXT.replace("a && two", check)
        profiles = world(text, *(worker(f"n{number}", a="") for number in range(10)), checks=self.CHECKS).settle()
        assert len(profiles.inside()) == 2
        profiles.label(profiles.inside()[0], c="").settle()
        assert len(profiles.inside()) == 2

    @pytest.mark.parametrize("check", ["a || two", "a && (two || b)", "a && (b || !two)"])
    def test_who_need_not_wait_for_a_place_does_not(self, check: str) -> None:
        text = self.TEXT.replace("a && two", check)
        nodes = [worker(f"n{number}", a="", b="") for number in range(5)]
        assert len(world(text, *nodes, checks=self.CHECKS).settle().inside()) == 5

    def test_of_two_limits_one_is_enough(self) -> None:
        checks = "\n".join(
            f"- {{type: maxMaintenance, name: {name}, config: {{max: {most}}}}}"
            for name, most in (("two", 2), ("one", 1))
        )
        text = self.TEXT.replace("a && two", "a && (one || two)")
        profiles = world(text, *(worker(f"n{number}", a="") for number in range(5)), checks=checks).settle()
        assert len(profiles.inside()) == 2

    def test_a_node_whose_place_is_taken_tries_its_other_ways(self) -> None:
        text = """
        - name: p
          operational:
            transitions:
            - {check: a && two, next: in-maintenance}
            - {check: b, next: maintenance-required}
        """
        checks = "- {type: maxMaintenance, name: two, config: {max: 1}}"
        full = worker("full", data=data(p=IN_MAINTENANCE))
        assert world(text, full, worker(a="", b=""), checks=checks).settle().current() == {"p": REQUIRED}
