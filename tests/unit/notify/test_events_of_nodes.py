"""Which events of a maintenance its node has, too."""

from __future__ import annotations

from tests.build.notices import Notices, options

BOTH = ["SLAStarted", "ObjectsDrained", "MaintenanceComplete"]
STEPS = ["Scheduled", "Validating", "MaintenanceEnded"]


def reasons(*, alone: bool) -> tuple[list[str], list[str]]:
    """Return the events of a maintenance, and those of its node, from the creation to the end."""
    world = Notices(options(alone=alone)).make("a").run()
    world.claim("n0", "mid").run().annotate("a", ready="true").run(5)
    world.annotate("a", client="complete").run(5).annotate("a", validation="complete").run(5).uncordon("n0").run(5)
    world.delete("a").run(5)
    told = [(reason, name) for reason, name in world.told if reason in {*BOTH, *STEPS}]
    return [reason for reason, name in told if name == "a"], [reason for reason, name in told if name == "n0"]


def test_together_with_other_surfaces_a_node_has_those_that_change_its_service() -> None:
    of_maintenance, of_node = reasons(alone=False)
    assert "Scheduled" in of_maintenance
    assert of_node == [reason for reason in of_maintenance if reason in BOTH]
    assert of_node[0] == "SLAStarted"
    assert of_node[-1] == "MaintenanceComplete"


def test_alone_each_event_is_told_of_both_as_the_original_does() -> None:
    of_maintenance, of_node = reasons(alone=True)
    assert of_node == of_maintenance
