"""The operator takes the baseline of a node itself. What the author of a maintenance writes is not believed."""

from __future__ import annotations

import json

import pytest

from haulout.embedded import NODES, Json
from haulout.surfaces.notify.wire import OBJECTS_DRAINED, VALIDATING
from tests.build.notices import Notices, options

GPU = "nvidia.com/gpu"
TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}}
REBOOT: Json = {"name": "rec", "type": "job", "template": TEMPLATE, "success": {"rebooted": True}}
CHECKS = {"preserveCapacity": [GPU], "readyFor": "1s", "checksTimeout": "5m"}
RUNNER = {"enabled": True, "defaultClient": "rec", "recipes": [REBOOT]}
VALIDATOR = {"enabled": True, "default": "smoke", "recipes": [{"name": "smoke", "type": "builtin", "checks": CHECKS}]}


def ops(**operators: Json) -> Notices:
    return Notices(options(json.dumps({"slaPeriod": "1h", "operators": operators})))


def report(given: Notices, boot: str = "one", gpus: str = "8") -> None:
    """Have the kubelet of the node report its boot id and its devices."""
    amounts = {"cpu": "8", GPU: gpus}
    status = {"nodeInfo": {"bootID": boot}, "capacity": amounts, "allocatable": amounts}
    given.world.objects.patch(NODES, "", "n0", {"status": status}, subresource="status")


def note(**baseline: object) -> Json:
    return {"haulout.dev/baseline": json.dumps(baseline)}


@pytest.mark.parametrize("amount", ["1e9000000", "1e-9000000", "9" * 100_000, "1/0", "nan", "inf", "0"])
def test_a_capacity_that_an_author_wrote_neither_counts_nor_stops_the_operator(amount: str) -> None:
    given = ops(validator=VALIDATOR)
    report(given)
    given.drained("a", annotations=note(capacity={GPU: amount})).annotate("a", client="complete").run(60)
    assert given.annotations("a")["maintenance/validationClient"] == "validated"


def test_a_device_that_is_lost_fails_the_check_whatever_an_author_wrote() -> None:
    given = ops(validator=VALIDATOR)
    report(given)
    given.drained("a", annotations=note(capacity={GPU: "0"}))
    report(given, gpus="7")
    given.annotate("a", client="complete").patch("a", {"metadata": {"annotations": note(capacity={})}}).run(400)
    assert given.annotations("a")["maintenance/validationClient"] == "failed"


@pytest.mark.parametrize("amount", ["1e999", "8e0", "8000m", "9" * 399])
def test_the_amounts_of_a_kubelet_are_read_within_bounds(amount: str) -> None:
    given = ops(validator=VALIDATOR)
    report(given, gpus="8")
    given.drained("a")
    report(given, gpus=amount)
    given.annotate("a", client="complete").run(60)
    assert given.annotations("a")["maintenance/validationClient"] == "validated"


def test_a_boot_id_that_an_author_wrote_is_no_reboot() -> None:
    given = ops(runner=RUNNER)
    report(given)
    given.drained("a", annotations=note(bootID="another")).run(60)
    given.patch("a", {"metadata": {"annotations": note(bootID="yet another")}}).run(60)
    assert given.status("a") == OBJECTS_DRAINED
    report(given, boot="two")
    assert given.run(5).status("a") == VALIDATING


def test_the_annotation_shows_what_the_operator_has_recorded() -> None:
    given = ops(runner=RUNNER)
    report(given)
    given.drained("a", annotations=note(bootID="another"))
    shown = given.annotations("a")["haulout.dev/baseline"]
    assert json.loads(shown)["bootID"] == "one"
    assert given.message("a", "baseline") == shown


def test_a_maintenance_that_was_drained_before_gets_its_baseline_with_its_first_attempt() -> None:
    given = ops(runner={**RUNNER, "enabled": False})
    report(given)
    given.drained("a")
    given.options = options(json.dumps({"slaPeriod": "1h", "operators": {"runner": RUNNER}}))
    given.begin().run()
    assert json.loads(given.message("a", "baseline"))["bootID"] == "one"
    report(given, boot="two")
    assert given.run(5).status("a") == VALIDATING
