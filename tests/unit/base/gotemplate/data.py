"""The data that `oracle.go` fills templates with, in Python."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from haulout.base.gotemplate import Map, Nil, Object, Slice
from haulout.base.gotemplate.times import METHODS, go_time


def _taint(key: str, value: str, effect: str) -> Object:
    return Object("main.Taint", {"Key": key, "Value": value, "Effect": effect})


_META: dict[str, Any] = {
    "Name": "n1",
    "Labels": Map({"zone": "a", "empty": "", "odd/key": "x"}, "", "map[string]string"),
    "CreationTimestamp": go_time(
        datetime(2025, 12, 31, 23, 59, 58, tzinfo=timezone(timedelta(hours=2))), type_name="main.Time"
    ),
    "DeletionTimestamp": Nil("*main.Time", METHODS),
}
_NODE = Object(
    "*main.Node",
    {
        "ObjectMeta": Object("main.ObjectMeta", _META),
        "Spec": Object(
            "main.NodeSpec",
            {
                "Unschedulable": True,
                "Taints": Slice([_taint("k", "v", "NoSchedule"), _taint("k2", "", "NoExecute")], "[]main.Taint"),
            },
        ),
        "Status": Object("main.NodeStatus", {"KubeletVersion": "v1.35.0"}),
    },
    promoted=_META,
)
DATA = Object(
    "main.Parameters",
    {
        "Node": _NODE,
        "State": "in-maintenance",
        "Profile": "kernel",
        "InMaintenance": True,
        "LastTransition": go_time(datetime(2026, 3, 1, 10, 4, 5, tzinfo=UTC), 123456789),
        "LogDetails": False,
        "M": {"a": 1, "b": "two", "c": 2.5, "d": None, "e": [1, "x"], "f": {"g": True}, "é": "ü"},
        "L": [1, "two", 3.0, None, False],
        "S": Slice(["x", "y", "z"], "[]string"),
        "N": 42,
        "F": 1234567.5,
        "Nothing": None,
        "None": [],
    },
)
