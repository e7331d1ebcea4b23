"""A node as `/api/v1/info` shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import within
from haulout.cluster.rows import LeaseRow
from haulout.cluster.view import View
from haulout.surfaces.profiles.info import node_info
from tests.build.profiles import IN_MAINTENANCE, OPERATIONAL, REQUIRED, Profiles, config_text, worker
from tests.build.rows import START

LIMITED = """
- name: p
  operational: {transitions: [{check: a, next: maintenance-required}]}
  maintenance-required: {transitions: [{check: one, next: in-maintenance}]}
- name: q
  operational: {transitions: [{check: b, next: in-maintenance}]}
"""
ONE = "- {type: maxMaintenance, name: one, config: {max: 1}}"
STAGGERED = "- name: p\n  operational: {transitions: [{check: turn, next: maintenance-required}]}\n"
TURN = "- {type: stagger, name: turn, config: {duration: 10s, leaseName: l, leaseNamespace: ns, parallel: 2}}"
KIND = within("Lease", "ns")
DATA = (
    '{"Profiles":{"q":{"Transition":"2026-01-01T00:00:00Z","Current":"in-maintenance","Previous":"in-maintenance"}},'
    '"Notifications":{}}'
)


def applied(profiles: Profiles, name: str) -> dict[str, Any]:
    """Return the result of each profile of a node, by its name."""
    info = node_info(node_key(name), View(profiles.desk.store, explaining=True), START)
    assert info is not None
    return {each["name"]: each["applied"] for each in info["profiles"]}


def lease(number: int) -> LeaseRow:
    key = Key("", KIND, "ns", f"l-{number}")
    return LeaseRow(key=key, version=1, duration_for=10 - number, renewed_at=START)


class TestWhatIsNext:
    def test_a_node_that_waits_for_room_stays_where_it_is(self) -> None:
        profiles = Profiles(config_text(LIMITED, checks=ONE), worker("m", a=""), worker("n", a="")).settle()
        assert profiles.inside() == ["m"]
        waiting = applied(profiles, "n")["p"]
        assert waiting["next"] == REQUIRED
        assert [each["passed"] for each in waiting["transitions"]] == [False]

    def test_a_node_that_waits_for_room_keeps_no_other_profile_out(self) -> None:
        nodes = (worker("m", a=""), worker("n", "p--q", a=""))
        profiles = Profiles(config_text(LIMITED, checks=ONE), *nodes).settle()
        profiles.desk.world.label(node_key("n"), b="")
        profiles.desk.feed.list()
        (way,) = applied(profiles, "n")["q"]["transitions"]
        assert way["passed"]

    def test_a_node_in_maintenance_is_shown_there(self) -> None:
        profiles = Profiles(config_text(LIMITED, checks=ONE), worker(a="")).settle()
        assert applied(profiles, "n")["p"]["next"] == IN_MAINTENANCE


class TestWhatItWaitsFor:
    def test_a_node_that_waits_for_room_names_the_node_that_has_it(self) -> None:
        profiles = Profiles(config_text(LIMITED, checks=ONE), worker("m", a=""), worker("n", a="")).settle()
        info = node_info(node_key("n"), View(profiles.desk.store, explaining=True), START)
        assert info is not None
        (cause,) = info["profiles"][0]["waitsFor"]
        assert (cause["code"], cause["text"]) == ("no-room", "one: 1 of 1 nodes in maintenance (m)")

    def test_a_node_that_goes_waits_for_nothing(self) -> None:
        profiles = Profiles(config_text(LIMITED, checks=ONE), worker("n", a="")).settle()
        info = node_info(node_key("n"), View(profiles.desk.store, explaining=True), START)
        assert info is not None
        assert [each["code"] for each in info["profiles"][0]["waitsFor"]] == ["no-transition"]


class TestWhoIsShown:
    def test_profiles_are_shown_as_the_label_lists_them(self) -> None:
        profiles = Profiles(config_text(LIMITED, checks=ONE), worker("n", "q--p--gone--q")).settle()
        info = node_info(node_key("n"), View(profiles.desk.store, explaining=True), START)
        assert info is not None
        assert [each["name"] for each in info["profiles"]] == ["q", "p", "q"]


class TestWhatPasses:
    @pytest.mark.parametrize("check", ["!b", "a || b", "!(a && b)", "a && (one || b)", "!one"])
    def test_an_expression_passes_although_some_of_its_checks_do_not(self, check: str) -> None:
        text = f"""
        - name: p
          operational: {{transitions: [{{check: "{check}", next: in-maintenance}}]}}
        - name: q
        """
        inside = worker("n", "p--q", data=DATA, a="")
        checks = ONE.replace("max: 1", "max: 9") if "(one" in check else ONE
        profiles = Profiles(config_text(text, checks=checks), inside).settle()
        (way,) = applied(profiles, "n")["p"]["transitions"]
        assert way["chain"]["passed"], "q is in maintenance, so that this is all that happens"
        assert not way["passed"]

    @pytest.mark.parametrize("check", ["b", "a && b", "!a", "a && one"])
    def test_an_expression_does_not_pass(self, check: str) -> None:
        text = f"- name: p\n  operational: {{transitions: [{{check: '{check}', next: in-maintenance}}]}}\n- name: q\n"
        profiles = Profiles(config_text(text, checks=ONE), worker("n", "p--q", data=DATA, a="")).settle()
        (way,) = applied(profiles, "n")["p"]["transitions"]
        assert not way["chain"]["passed"]


class TestWhatChecksSay:
    def test_a_list_is_shown_as_a_list(self) -> None:
        profiles = Profiles(config_text(STAGGERED, checks=TURN), worker())
        store = profiles.desk.store
        store.begin_list("", KIND)
        for number in range(2):
            store.put(lease(number))
        store.end_list("", KIND, 1)
        shown = applied(profiles, "n")["p"]
        assert shown["next"] == OPERATIONAL
        assert shown["transitions"][0]["chain"]["info"]["turn"] == {
            "id": "stagger",
            "passed": False,
            "info": {"availableInSec": [10.0, 9.0]},
        }


class TestWithoutAConfiguration:
    def test_profiles_are_shown_where_they_stay_and_why(self) -> None:
        profiles = Profiles(config_text(LIMITED, checks=ONE), worker("n", "p--q--gone", a="", b="")).settle()
        assert profiles.current("n") == {"p": REQUIRED, "q": IN_MAINTENANCE}
        profiles.break_config("maintenance.yaml: broken")
        shown = applied(profiles, "n")
        assert {name: each["next"] for name, each in shown.items()} == profiles.current("n")
        assert {each["error"] for each in shown.values()} == {"maintenance.yaml: broken"}

    def test_data_that_cannot_be_read_show_no_profile(self) -> None:
        profiles = Profiles(config_text(LIMITED, checks=ONE), worker("n", data="no"))
        profiles.break_config()
        assert applied(profiles, "n") == {}

    def test_nothing_is_shown_before_it_has_been_read(self) -> None:
        profiles = Profiles(None, worker("n"))
        assert node_info(node_key("n"), View(profiles.desk.store, explaining=True), START) is None


LONG = "x" * 40_000


@pytest.mark.parametrize(
    "data",
    [
        DATA.replace('"Current":"in-maintenance"', f'"Current":"{LONG}"'),
        DATA.replace('"Current"', f'"{LONG}"'),
        DATA.replace("2026-01-01T00:00:00Z", LONG),
        DATA.replace('"Notifications":{}', f'"Notifications":{{"{LONG}":"{LONG}"}}'),
        LONG,
    ],
    ids=["state", "key", "time", "notification", "no JSON"],
)
def test_a_page_is_short_whatever_the_data_of_a_node_says(data: str) -> None:
    profiles = Profiles(config_text(LIMITED, checks=ONE), worker("n", "p--q", a="")).settle()
    profiles.annotate(data).settle()
    info = node_info(node_key("n"), View(profiles.desk.store, explaining=True), START)
    assert len(json.dumps(info)) < 4096
    assert max(len(note) for note in [*profiles.notes, ""]) < 1024
