"""What is logged about a node with verbose logging."""

from __future__ import annotations

from haulout.surfaces.profiles.wire import LOG_DETAILS_LABEL
from tests.build.profiles import Profiles, config_text, worker

TEXT = """
- name: p
  operational: {notify: ops, transitions: [{check: a && one, next: in-maintenance}, {check: "!b", next: operational}]}
"""
ONE = "- {type: maxMaintenance, name: one, config: {max: 1}}"
OPS = """
- type: slack
  name: ops
  config: {hook: h, channel: c, message: m}
  schedule: {type: periodic, config: {}}
"""
RESULTS = "results of check plugins"


def said(profiles: Profiles) -> list[tuple[str, str]]:
    """Return the log lines, each with its fields except for the place."""
    return [
        (line.message, fields.get("checks") or fields.get("instance", ""))
        for line in profiles.lines
        if (fields := dict(line.fields))
    ]


def detailed(value: str) -> Profiles:
    return Profiles(config_text(TEXT, checks=ONE, notify=OPS), worker(labels={LOG_DETAILS_LABEL: value}))


def test_what_checks_say_and_what_is_not_due_is_said_once() -> None:
    profiles = detailed("true").settle()
    assert said(profiles) == [
        ("NotifyPeriodic: no state change", "ops"),
        ("NotifyPeriodic: interval not passed or operational", "ops"),
        ("Notification instance is not scheduled to run", "ops"),
        (RESULTS, '{"a": false, "one": true}'),
        (RESULTS, '{"b": false}'),
    ]


def test_what_has_changed_is_said_again() -> None:
    profiles = detailed("true").settle()
    before = len(profiles.lines)
    profiles.label(b="").settle()
    assert said(profiles)[before:] == [(RESULTS, '{"b": true}')]


def test_a_check_that_waits_for_room_does_not_pass() -> None:
    full = worker("m", a="")
    profiles = Profiles(config_text(TEXT, checks=ONE, notify=OPS), full).settle()
    assert profiles.inside() == ["m"]
    profiles.desk.world.put(worker(labels={LOG_DETAILS_LABEL: "true"}, a=""))
    profiles.desk.watch()
    profiles.settle()
    assert (RESULTS, '{"a": true, "one": false}') in said(profiles)


def test_nothing_is_said_unasked() -> None:
    assert said(detailed("yes").settle()) == []
