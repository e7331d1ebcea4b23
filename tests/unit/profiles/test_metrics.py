"""The metrics of profiles and their states."""

from __future__ import annotations

from haulout.surfaces.profiles.metrics import samples
from tests.build.profiles import worker
from tests.build.rows import at

STATE = "maintenance_controller_profile_state"
SECONDS = "maintenance_controller_profile_state_seconds"


def entry(state: str, transition: str = "2026-03-01T10:00:00Z") -> str:
    return f'{{"Transition":"{transition}","Current":"{state}","Previous":"{state}"}}'


def test_each_attached_profile_shows_its_state_and_since_when() -> None:
    """G19: what is detached or cannot be read has no series."""
    data = f'{{"Profiles":{{"p":{entry("in-maintenance")},"q":{entry("operational")},"gone":{entry("operational")}}}}}'
    nodes = (worker("n", "q--p--unknown", data), worker("garbled", "p", "garbage"), worker("fresh", "p"))
    assert {sample[:2]: sample[2] for sample in samples(nodes, at(90))} == {
        (STATE, (("node", "n"), ("profile", "p"), ("state", "in-maintenance"))): 1.0,
        (SECONDS, (("node", "n"), ("profile", "p"))): 90.0,
        (STATE, (("node", "n"), ("profile", "q"), ("state", "operational"))): 1.0,
        (SECONDS, (("node", "n"), ("profile", "q"))): 90.0,
    }


def test_any_year_can_be_shown() -> None:
    data = f'{{"Profiles":{{"p":{entry("operational", "9999-12-31T23:59:59Z")}}}}}'
    assert {sample[0] for sample in samples((worker("n", "p", data),), at(0))} == {STATE, SECONDS}


def test_a_profile_named_twice_has_one_series() -> None:
    data = f'{{"Profiles":{{"p":{entry("operational")}}}}}'
    assert [sample[0] for sample in samples((worker("n", "p--p", data),), at(0))] == [STATE, SECONDS]
