"""NotifyMaintenances on the embedded cluster, in virtual time: the state machine with every transition."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.embedded import NODES
from haulout.kernel.requests import Change, Refused
from haulout.surfaces.notify.wire import (
    FINALIZER,
    INCOMPLETE,
    KIND,
    OBJECTS_DRAINED,
    SCHEDULED,
    SLA_EXPIRED,
    STARTED,
    TERMINATED,
    VALIDATING,
)
from tests.build.notices import Killed, Notices, options
from tests.build.workloads import node

HOOK = "slaPeriod: 1h\nnotifications: {webhook: {url: 'https://x'}}"
ALL = "[Scheduled, SLAStarted, SLAExpired, ObjectsDrained, Validating, MaintenanceIncomplete, MaintenanceCancelled, MaintenanceEnded, MaintenanceComplete]"
EVERYTHING = f"slaPeriod: 1h\nnotifications: {{webhook: {{url: 'https://x', events: {ALL}}}}}"
CONTINUE = "slaPeriod: 1h\nnotifications: {failurePolicy: Continue, webhook: {url: 'https://x'}}"


@pytest.fixture
def ops() -> Notices:
    return Notices(options(EVERYTHING))


class TestStates:
    def test_a_whole_life(self, ops: Notices) -> None:
        ops.drained("a").annotate("a", client="complete").run().annotate("a", validation="validated").run()
        assert ops.path("a") == [SCHEDULED, STARTED, OBJECTS_DRAINED, VALIDATING]
        assert ops.conditions("a") == {
            "readyForMaintenance": "true",
            "maintenanceClient": "complete",
            "validationClient": "validated",
        }
        ops.delete("a").run()
        assert TERMINATED in ops.annotations("a")
        ops.uncordon("n0").run()
        assert ops.found("a") is None
        assert ops.claims("n0") == []
        expected = [
            "Scheduled",
            "SLAStarted",
            "ObjectsDrained",
            "Validating",
            "MaintenanceEnded",
            "MaintenanceComplete",
        ]
        assert ops.events("a") == expected
        assert ops.reasons("a") == expected
        assert ops.reasons("n0") == expected

    def test_six_transitions_of_one_that_expires_and_fails(self, ops: Notices) -> None:
        ops.started("a").run(3601).annotate("a", ready="true").run()
        ops.annotate("a", client="complete").run().annotate("a", validation="failed").run()
        assert ops.path("a") == [SCHEDULED, STARTED, SLA_EXPIRED, OBJECTS_DRAINED, VALIDATING, INCOMPLETE]

    def test_the_first_reconcile_sets_finalizer_and_label(self, ops: Notices) -> None:
        ops.make("a").run()
        meta = ops.get("a")["metadata"]
        assert (meta["finalizers"], meta["labels"]) == ([FINALIZER], {"maintenance/mid": ""})
        assert ops.status("a") == SCHEDULED

    @pytest.mark.parametrize(("labelled", "cordoned"), [(True, False), (False, True)], ids=["label", "cordon"])
    def test_label_or_cordon_alone_starts_nothing(self, ops: Notices, labelled: bool, cordoned: bool) -> None:
        ops.make("a").run().cordon("n0", cordoned).label("n0", *(["mid"] if labelled else [])).run()
        assert ops.status("a") == SCHEDULED

    @pytest.mark.parametrize("first", ["label", "cordon"])
    def test_the_order_of_label_and_cordon_does_not_matter(self, ops: Notices, first: str) -> None:
        acts = {"label": lambda: ops.label("n0", "mid").run(), "cordon": lambda: ops.cordon("n0").run()}
        ops.make("a").run()
        acts.pop(first)()
        next(iter(acts.values()))()
        assert ops.status("a") == STARTED

    def test_a_prepared_node_and_preset_annotations_chain(self, ops: Notices) -> None:
        ops.claim("n0", "mid").make("a", annotations={"maintenance/readyForMaintenance": "true"}).run()
        assert ops.path("a") == [SCHEDULED, STARTED, OBJECTS_DRAINED]
        assert ops.events("a").count("ObjectsDrained") == 1

    def test_expiry_outranks_the_drain(self, ops: Notices) -> None:
        ops.started("a")
        ops.kernel.follow()
        ops.world.time.run_for(timedelta(hours=2))
        ops.annotate("a", ready="true").begin().run()
        assert ops.path("a") == [SCHEDULED, STARTED, SLA_EXPIRED, OBJECTS_DRAINED]

    def test_incomplete_from_the_maintenance_step(self, ops: Notices) -> None:
        ops.drained("a").annotate("a", client="incomplete").run()
        assert ops.path("a") == [SCHEDULED, STARTED, OBJECTS_DRAINED, INCOMPLETE]

    @pytest.mark.parametrize("value", ["inprogress", "whatever"])
    def test_other_values_are_mirrored_and_move_nothing(self, ops: Notices, value: str) -> None:
        ops.drained("a").annotate("a", client=value).run()
        assert (ops.status("a"), ops.conditions("a")["maintenanceClient"]) == (OBJECTS_DRAINED, value)

    def test_an_annotation_that_was_emptied_is_mirrored_too(self, ops: Notices) -> None:
        ops.drained("a").annotate("a", client="inprogress").run().annotate("a", client="").run()
        assert ops.conditions("a") == {"readyForMaintenance": "true", "maintenanceClient": ""}
        ops.annotate("a", client="complete").run()
        assert (ops.status("a"), ops.conditions("a")["maintenanceClient"]) == (VALIDATING, "complete")

    def test_early_annotations_wait_for_their_state(self, ops: Notices) -> None:
        ops.started("a").annotate("a", client="complete", validation="failed").run()
        assert (ops.status("a"), ops.conditions("a")) == (STARTED, {})

    def test_ready_false_is_never_mirrored(self, ops: Notices) -> None:
        ops.started("a").annotate("a", ready="false").run()
        assert (ops.status("a"), ops.conditions("a")) == (STARTED, {})

    def test_a_half_written_drain_is_finished(self, ops: Notices) -> None:
        stamp = {"type": "readyForMaintenance", "status": "true", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ops.started("a").patch("a", {"status": {"conditions": [stamp]}}, "status").annotate("a", ready="true").run()
        assert ops.status("a") == OBJECTS_DRAINED

    def test_conditions_of_others_stay(self, ops: Notices) -> None:
        ops.drained("a")
        foreign = {"type": "mine", "status": "yes"}
        kept = ops.get("a")["status"]["conditions"]
        ops.patch("a", {"status": {"conditions": [*kept, foreign]}}, "status").annotate("a", client="inprogress").run()
        assert ops.conditions("a")["mine"] == "yes"


class TestNodes:
    def test_a_maintenance_waits_for_its_node(self, ops: Notices) -> None:
        ops.make("a", "late").run()
        assert (ops.status("a"), ops.finalizers("a")) == ("", [])
        ops.world.make(node("late"))
        ops.run()
        assert ops.status("a") == SCHEDULED

    def test_a_deleted_maintenance_of_a_node_that_is_gone_ends(self, ops: Notices) -> None:
        ops.drained("a")
        ops.world.objects.delete(NODES, "", "n0")
        ops.run().delete("a").run()
        assert TERMINATED in ops.annotations("a")
        ops.run(3500)
        assert ops.found("a") is not None
        ops.run(200)
        assert ops.found("a") is None
        assert ops.events("a")[-2:] == ["MaintenanceEnded", "MaintenanceComplete"]

    def test_a_node_that_comes_back_uncordoned_completes(self, ops: Notices) -> None:
        ops.drained("a")
        ops.world.objects.delete(NODES, "", "n0")
        ops.run().delete("a").run()
        ops.world.make(node("n0"))
        ops.run()
        assert ops.found("a") is None

    def test_before_the_start_the_node_does_not_matter(self, ops: Notices) -> None:
        ops.make("a").run()
        ops.world.objects.delete(NODES, "", "n0")
        ops.run().delete("a").run()
        assert ops.found("a") is None

    def test_uncordon_and_strip_in_one_update_wake_a_terminating_one(self, ops: Notices) -> None:
        ops.started("a").delete("a").run()
        ops.world.change(
            NODES, "n0", {"metadata": {"labels": {"maintenance/mid": None}}, "spec": {"unschedulable": None}}
        )
        ops.run()
        assert ops.found("a") is None


class TestDeletion:
    def test_before_the_start_nothing_is_said_and_only_its_label_goes(self, ops: Notices) -> None:
        ops.label("n0", "mid", "other").make("a").run().delete("a").run()
        assert ops.found("a") is None
        assert ops.claims("n0") == ["maintenance/other"]
        assert ops.events("a") == ["Scheduled"]

    @pytest.mark.parametrize(
        ("client", "event"),
        [(None, "MaintenanceEnded"), ("incomplete", "MaintenanceEnded")],
        ids=["drained", "incomplete"],
    )
    def test_after_the_drain_it_ends(self, ops: Notices, client: str | None, event: str) -> None:
        ops.drained("a").annotate("a", client=client).run().delete("a").run()
        assert ops.events("a")[-1] == event

    def test_before_the_drain_it_is_cancelled_and_then_completes(self, ops: Notices) -> None:
        ops.started("a").delete("a").run()
        assert ops.events("a")[-1] == "MaintenanceCancelled"
        ops.run(7200)
        assert ops.status("a") == STARTED, "the SLA of a cancelled one does not expire"
        ops.uncordon("n0").run()
        assert ops.events("a")[-1] == "MaintenanceComplete"


class TestUncordon:
    def test_it_completes_and_releases_one_that_is_not_deleted(self, ops: Notices) -> None:
        ops.world.change(NODES, "n0", {"metadata": {"labels": {"cordoned-by": "x", "keep": "me"}}})
        ops.started("a").uncordon("n0").run()
        assert (ops.finalizers("a"), ops.status("a"), ops.claims("n0")) == ([], STARTED, [])
        assert "cordoned-by" not in ops.node("n0")["metadata"]["labels"]
        assert ops.node("n0")["metadata"]["labels"]["keep"] == "me"
        ops.run(7200).annotate("a", ready="true").run()
        assert (ops.status("a"), ops.conditions("a")) == (STARTED, {}), "a released one is inert"
        ops.delete("a")
        assert ops.found("a") is None

    def test_presence_of_the_deciding_annotation_shadows_it(self, ops: Notices) -> None:
        ops.started("a", "n0").annotate("a", ready="false")
        ops.drained("b", "n1").annotate("b", client="inprogress")
        ops.drained("c", "n2").annotate("c", client="complete").run().annotate("c", validation="validated").run()
        for each in ("n0", "n1", "n2"):
            ops.uncordon(each)
        ops.run(10)
        assert [ops.finalizers(name) for name in "abc"] == [[FINALIZER]] * 3
        assert [ops.claims(each) for each in ("n0", "n1", "n2")] == [["maintenance/mid"]] * 3
        for name in "abc":
            ops.delete(name)
        ops.run()
        assert [ops.found(name) for name in "abc"] == [None] * 3

    def test_incomplete_and_validating_complete(self, ops: Notices) -> None:
        ops.drained("a", "n0").annotate("a", client="incomplete").run().uncordon("n0").run()
        ops.drained("b", "n1").annotate("b", client="complete").run().uncordon("n1").run()
        assert (ops.finalizers("a"), ops.finalizers("b")) == ([], [])

    def test_one_uncordon_completes_all_of_a_node(self, ops: Notices) -> None:
        ops.started("a", mid="id1").make("b", mid="id2").run().label("n0", "id2", "foreign").run()
        assert ops.status("b") == STARTED
        ops.uncordon("n0").run()
        assert (ops.finalizers("a"), ops.finalizers("b"), ops.claims("n0")) == ([], [], [])

    def test_a_marked_one_resumes_without_another_message(self, ops: Notices) -> None:
        ops.started("a")
        ops.patch("a", {"metadata": {"annotations": {"haulout.dev/completed-at": "2026-01-01T00:00:00Z"}}}).run()
        assert (ops.finalizers("a"), ops.claims("n0")) == ([], [])
        assert "MaintenanceComplete" not in ops.events("a")


class TestDeadline:
    def test_it_is_stored_with_the_start(self, ops: Notices) -> None:
        ops.started("a")
        assert ops.expires("a") - ops.entered("a", STARTED) == timedelta(hours=1)

    def test_maintenances_of_one_node_share_it(self, ops: Notices) -> None:
        ops.started("a", mid="id1").run(600).make("b", mid="id2").run().label("n0", "id2").run()
        assert ops.expires("a") == ops.expires("b")
        ops.run(3600)
        assert (ops.status("a"), ops.status("b")) == (SLA_EXPIRED, SLA_EXPIRED)

    def test_a_fresh_period_begins_once_the_other_has_fired(self, ops: Notices) -> None:
        ops.started("a", mid="id1").run(3700).make("b", mid="id2").run().label("n0", "id2").run()
        assert ops.expires("b") - ops.entered("b", STARTED) == timedelta(hours=1)

    def test_deleting_one_leaves_the_countdown_of_the_other(self, ops: Notices) -> None:
        ops.started("a", mid="id1").make("b", mid="id2").run().label("n0", "id2").run().delete("a").run(3700)
        assert (ops.status("a"), ops.status("b")) == (STARTED, SLA_EXPIRED)

    def test_a_restart_keeps_it(self, ops: Notices) -> None:
        ops.started("a").run(1800).begin().run(1750)
        assert ops.status("a") == STARTED
        ops.run(120)
        assert ops.status("a") == SLA_EXPIRED

    def test_a_missing_one_is_repaired(self, ops: Notices) -> None:
        ops.started("a").run(60).patch("a", {"status": {"slaExpires": None}}, "status").run()
        assert ops.expires("a") - ops.entered("a", STARTED) == timedelta(hours=1)

    def test_one_of_its_own_is_not_shared(self, ops: Notices) -> None:
        own = {"haulout.dev/sla-period": "10m"}
        ops.started("a", mid="id1", annotations=own).make("b", mid="id2").run().label("n0", "id2").run()
        assert ops.expires("a") - ops.entered("a", STARTED) == timedelta(minutes=10)
        assert ops.expires("b") - ops.entered("b", STARTED) == timedelta(hours=1)

    @pytest.mark.parametrize("text", ["soon", "-5m", "0s"])
    def test_a_wrong_one_of_its_own_is_told_and_ignored(self, ops: Notices, text: str) -> None:
        ops.started("a", annotations={"haulout.dev/sla-period": text})
        assert ops.expires("a") - ops.entered("a", STARTED) == timedelta(hours=1)
        assert "SLAPeriodInvalid" in ops.reasons("a")


class TestRetry:
    RETRY = "slaPeriod: 1h\ncore: {allowRetry: true}"

    def incomplete(self, text: str, **annotations: str) -> Notices:
        ops = Notices(options(text))
        return ops.drained("a", annotations=annotations).annotate("a", client="incomplete").run()

    def test_it_goes_back_to_the_maintenance_step(self) -> None:
        ops = self.incomplete(self.RETRY)
        ops.patch("a", {"metadata": {"annotations": {"haulout.dev/retry": "1"}}}).run()
        assert ops.path("a")[-2:] == [INCOMPLETE, OBJECTS_DRAINED]
        assert "maintenance/maintenanceClient" not in ops.annotations("a")
        assert "maintenanceClient" not in ops.conditions("a")
        ops.annotate("a", client="incomplete").run(60)
        assert ops.status("a") == INCOMPLETE, "the same value does not ask twice"
        ops.patch("a", {"metadata": {"annotations": {"haulout.dev/retry": "2"}}}).run()
        assert ops.status("a") == OBJECTS_DRAINED

    def test_it_needs_the_setting_and_a_value_set_since(self) -> None:
        ops = self.incomplete("slaPeriod: 1h")
        ops.patch("a", {"metadata": {"annotations": {"haulout.dev/retry": "1"}}}).run()
        assert ops.status("a") == INCOMPLETE
        preset: dict[str, str] = {"haulout.dev/retry": "1"}
        assert self.incomplete(self.RETRY, **preset).status("a") == INCOMPLETE


class TestMessages:
    def test_a_dead_transport_blocks_what_goes_before_a_transition(self) -> None:
        ops = Notices(options(HOOK))
        ops.make("a").run()
        ops.dead = {"webhook"}
        ops.claim("n0", "mid").run(30)
        assert ops.status("a") == SCHEDULED
        assert len(ops.tried) > 2
        ops.dead = set()
        ops.run(60)
        assert (ops.status("a"), ops.events("a")) == (STARTED, ["SLAStarted"])

    def test_what_follows_a_transition_is_tried_until_it_is_delivered(self) -> None:
        ops = Notices(options(HOOK))
        ops.drained("a")
        ops.dead = {"webhook"}
        ops.annotate("a", client="complete").run(5)
        assert ops.status("a") == VALIDATING
        assert ops.annotations("a")["haulout.dev/undelivered"] == "Validating"
        ops.dead = set()
        ops.begin().run(5)
        assert ops.events("a")[-1] == "Validating"
        assert "haulout.dev/undelivered" not in ops.annotations("a")

    @pytest.mark.parametrize(
        ("event", "client", "state"),
        [("Validating", "complete", VALIDATING), ("MaintenanceIncomplete", "incomplete", INCOMPLETE)],
    )
    def test_a_kill_between_a_transition_and_its_message_does_not_lose_it(
        self, event: str, client: str, state: str
    ) -> None:
        ops = Notices(options(HOOK))
        ops.drained("a")
        ops.dies_at = event
        with pytest.raises(Killed):
            ops.annotate("a", client=client).run(5)
        ops.dies_at = ""
        assert (ops.status("a"), event in ops.events("a")) == (state, False)
        ops.begin().run(5)
        assert ops.events("a").count(event) == 1
        assert "haulout.dev/undelivered" not in ops.annotations("a")
        ops.begin().run(5)
        assert ops.events("a").count(event) == 1

    def test_a_kill_before_the_first_message_does_not_lose_it_where_it_is_wanted(self) -> None:
        ops = Notices(options("slaPeriod: 1h\nnotifications: {webhook: {url: 'https://x', events: [Scheduled]}}"))
        ops.dies_at = "Scheduled"
        with pytest.raises(Killed):
            ops.make("a").run()
        ops.dies_at = ""
        ops.begin().run(5)
        assert (ops.status("a"), ops.events("a"), ops.annotations("a")) == (SCHEDULED, ["Scheduled"], {})

    def test_what_follows_a_transition_is_not_sent_before_it(self) -> None:
        ops = Notices(options(HOOK))
        ops.drained("a")
        ops.refuses = {(Change, f"{KIND}/status"): Refused(500, "not now")}
        ops.annotate("a", client="complete").run(5)
        ops.begin().run(5)
        assert ops.annotations("a")["haulout.dev/undelivered"] == "Validating"
        assert "Validating" not in ops.tried
        ops.refuses = {}
        ops.run(120)
        assert (ops.status("a"), ops.events("a").count("Validating")) == (VALIDATING, 1)

    def test_a_retried_step_has_messages_of_its_own(self) -> None:
        ops = Notices(options(f"{HOOK}\ncore: {{allowRetry: true}}"))
        ops.drained("a").annotate("a", client="incomplete").run(5)
        ops.patch("a", {"metadata": {"annotations": {"haulout.dev/retry": "1"}}}).run(5)
        ops.annotate("a", client="incomplete").run(5)
        keys = [each.key.removeprefix(ops.get("a")["metadata"]["uid"]) for each in ops.sent]
        assert keys == [
            *("-SLAStarted", "-ObjectsDrained", "-MaintenanceIncomplete"),
            *("-ObjectsDrained-1", "-MaintenanceIncomplete-1"),
        ]

    @pytest.mark.parametrize("settings", [HOOK, CONTINUE], ids=["Block", "Continue"])
    def test_a_message_that_is_late_keeps_its_key_when_the_maintenance_fails(self, settings: str) -> None:
        """Or the receiver would take a repetition for a message of the next try."""
        ops = Notices(options(f"{settings}\ncore: {{allowRetry: true}}"))
        ops.started("a")
        ops.dead = {"webhook"} if settings == CONTINUE else set()
        ops.annotate("a", ready="true").run(5)
        ops.dead = {"webhook"}
        ops.annotate("a", client="complete").run(5).annotate("a", validation="failed").run(5)
        assert ops.status("a") == INCOMPLETE
        ops.dead = set()
        ops.run(600)
        ops.patch("a", {"metadata": {"annotations": {"haulout.dev/retry": "1"}}}).run(5)
        keys = [each.key.removeprefix(ops.get("a")["metadata"]["uid"]) for each in ops.sent]
        assert keys == ["-SLAStarted", "-ObjectsDrained", "-Validating", "-MaintenanceIncomplete", "-ObjectsDrained-1"]

    def test_messages_come_in_order_although_one_fails(self) -> None:
        ops = Notices(options(HOOK))
        ops.drained("a")
        ops.dead = {"webhook"}
        ops.annotate("a", client="complete").run(30).annotate("a", validation="failed").run(30)
        assert ops.status("a") == INCOMPLETE
        ops.delete("a").run(30)
        ops.dead = set()
        ops.uncordon("n0").run(600)
        assert ops.found("a") is None
        assert ops.events("a")[2:] == ["Validating", "MaintenanceIncomplete", "MaintenanceComplete"]

    def test_it_is_given_up_after_a_day(self) -> None:
        ops = Notices(options(HOOK))
        ops.drained("a")
        ops.dead = {"webhook"}
        ops.annotate("a", client="incomplete").run(90_000)
        assert "haulout.dev/undelivered" not in ops.annotations("a")
        tried = len(ops.tried)
        ops.run(90_000)
        assert len(ops.tried) == tried

    def test_completion_survives_a_dead_transport(self) -> None:
        ops = Notices(options(HOOK))
        ops.started("a")
        ops.dead = {"webhook"}
        ops.uncordon("n0").run(10)
        assert ops.finalizers("a") == [FINALIZER]
        ops.dead = set()
        ops.run(60)
        assert (ops.finalizers("a"), ops.claims("n0"), ops.events("a")[-1]) == ([], [], "MaintenanceComplete")

    def test_continue_never_blocks_and_remembers_what_is_owed(self) -> None:
        ops = Notices(options(CONTINUE))
        ops.dead = {"webhook"}
        ops.drained("a").annotate("a", client="complete").run(5)
        assert ops.path("a") == [SCHEDULED, STARTED, OBJECTS_DRAINED, VALIDATING]
        assert ops.annotations("a")["haulout.dev/undelivered"] == "SLAStarted,ObjectsDrained,Validating"
        ops.dead = set()
        ops.run(600)
        assert sorted(ops.events("a")) == ["ObjectsDrained", "SLAStarted", "Validating"]
        assert "haulout.dev/undelivered" not in ops.annotations("a")

    def test_continue_lets_a_deleted_one_go(self) -> None:
        ops = Notices(options(CONTINUE))
        ops.dead = {"webhook"}
        ops.started("a").delete("a").uncordon("n0").run(10)
        assert ops.found("a") is None

    def test_one_that_goes_hands_over_all_that_is_owed(self) -> None:
        ops = Notices(options(CONTINUE))
        ops.dead = {"webhook"}
        ops.drained("a").annotate("a", client="incomplete").run(5).delete("a").uncordon("n0").run(10)
        assert ops.found("a") is None
        assert ops.handed_over == ["SLAStarted", "ObjectsDrained", "MaintenanceIncomplete", "MaintenanceComplete"]

    @pytest.mark.parametrize(("event", "starts"), [("SLAStarted", True), ("Scheduled", False)])
    def test_what_is_owed_is_handed_over_also_where_the_end_is_not_announced(self, event: str, starts: bool) -> None:
        hook = f"{{webhook: {{url: 'https://x', events: [{event}]}}, failurePolicy: Continue}}"
        ops = Notices(options(f"slaPeriod: 1h\nnotifications: {hook}"))
        ops.dead = {"webhook"}
        ops.make("a").run(5).label("n0", *(["mid"] if starts else [])).cordon("n0").run(5)
        ops.delete("a").run(5).uncordon("n0").run(5)
        assert (ops.found("a"), ops.handed_over) == (None, [event])

    def test_each_message_goes_once(self, ops: Notices) -> None:
        ops.drained("a").annotate("a", client="complete").run(100).delete("a").uncordon("n0").run(100)
        assert len(ops.events("a")) == len(set(ops.events("a")))

    def test_one_dead_notifier_does_not_stop_the_others(self) -> None:
        ops = Notices(options("slaPeriod: 1h\nnotifications: {webhook: {url: 'https://x'}, slack: {url: 'https://y'}}"))
        ops.dead = {"webhook"}
        ops.started("a").run(30)
        assert [each.notifier for each in ops.sent] == ["slack"]
        assert ops.status("a") == SCHEDULED


def test_a_life_costs_few_writes() -> None:
    ops = Notices(options())
    ops.drained("a").annotate("a", client="complete").run().annotate("a", validation="validated").run()
    ops.delete("a").run().uncordon("n0").run()
    assert ops.found("a") is None
    # One for its metadata, one for each of five states, its end, its node, its finalizer.
    assert len(ops.writes) == 9
