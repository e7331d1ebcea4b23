"""The versions of packages that the console shows for a node."""

from __future__ import annotations

import json

from haulout.surfaces.packages.installed import versions_on


def state(*entries: tuple[str, str]) -> str:
    found = {
        f"{name}|{version}": {"name": name, "version": version, "image": "x", "stage": "config", "state": "complete"}
        for name, version in entries
    }
    return json.dumps(found)


def test_versions_come_from_the_states_of_both_groups() -> None:
    annotations = {
        "skyhook.nvidia.com/nodeState_tuning": state(("kernel", "2.1.0"), ("sysctl", "1.0.0")),
        "nodewright.nvidia.com/nodeState_driver": state(("driver", "550")),
        "example.com/other": "x",
    }
    assert versions_on(annotations) == {"kernel": "2.1.0", "sysctl": "1.0.0", "driver": "550"}


def test_two_versions_are_shown_while_one_replaces_the_other() -> None:
    annotations = {"skyhook.nvidia.com/nodeState_tuning": state(("kernel", "2.1.0"), ("kernel", "2.0.4"))}
    assert versions_on(annotations) == {"kernel": "2.0.4, 2.1.0"}


def test_a_state_that_cannot_be_read_shows_none() -> None:
    assert versions_on({"skyhook.nvidia.com/nodeState_tuning": "{"}) == {}
