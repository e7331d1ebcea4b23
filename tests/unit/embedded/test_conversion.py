"""The conversion of an object that shares parts with the stored one gives what a conversion from scratch gives."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from haulout.embedded import Json
from haulout.embedded.rules.fields import converter

STORED: Json = converter("Node")(
    {
        "metadata": {"name": "n", "labels": {"a": "b"}, "creationTimestamp": "2026-04-01T14:00:00+02:00"},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-04-01T12:00:00Z"}]},
        "status": {
            "capacity": {"cpu": "4000m", "memory": "1024Mi"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-04-01T12:00:00Z"}],
        },
    },
    None,
    [],
)
META, STATUS = STORED["metadata"], STORED["status"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": {**META, "labels": {"a": "c"}}}, id="a label"),
        pytest.param({"metadata": {**META, "labels": {}, "annotations": {}}}, id="empty maps"),
        pytest.param({"metadata": {**META, "labels": {"a": None}}}, id="null in a map"),
        pytest.param({"metadata": {**META, "creationTimestamp": None}}, id="null where null is printed"),
        pytest.param({"metadata": None, "spec": None}, id="null in place of structs"),
        pytest.param({"metadata": {**META, "nonsense": 1}, "nonsense": None}, id="unknown fields"),
        pytest.param({"spec": {**STORED["spec"], "unschedulable": False, "podCIDR": ""}}, id="empty values"),
        pytest.param({"status": {**STATUS, "capacity": {**STATUS["capacity"], "cpu": "0.5"}}}, id="a quantity"),
        pytest.param({"status": {**STATUS, "capacity": {"cpu": 4, "memory": "1Gi"}}}, id="a number as a quantity"),
        pytest.param(
            {"status": {**STATUS, "conditions": [{**STATUS["conditions"][0], "lastHeartbeatTime": "2026-04-01T14:00:00+02:00"}, None]}},
            id="a time of another zone, and null in a list",
        ),
    ],
)  # fmt: skip
def test_sharing_makes_no_difference(change: Json) -> None:
    sent = {**STORED, **change}
    assert converted(sent, STORED) == converted(copy.deepcopy(sent), None)


def converted(sent: Json, old: Json | None) -> tuple[Any, list[str]]:
    """Return the printed object, with the order of its fields, and the unknown fields."""
    unknown: list[str] = []
    return str(converter("Node")(sent, old, unknown)), unknown


def test_what_is_stored_stays_the_same_object() -> None:
    result = converter("Node")({**STORED, "metadata": {**META, "labels": {}}}, STORED, [])
    assert result["status"] is STATUS
    assert result["metadata"]["creationTimestamp"] is META["creationTimestamp"]
