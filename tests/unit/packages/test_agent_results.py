"""What is reported about the result of an agent."""

from __future__ import annotations

import json

import pytest

from haulout.surfaces.packages.pods.agent_results import LONGEST, failure_of


def message(**fields: object) -> str:
    return json.dumps({"mode": "apply", "result": "failed", "failedStep": None, "error": None, "log": None, **fields})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ""),
        ("no JSON", ""),
        ("[" * 100_000, ""),
        ('{"failedStep": 5}', ""),
        (message(), ""),
        (message(error="config.json: not an object"), "config.json: not an object"),
        (message(failedStep={"path": "a.sh", "exitCode": 2}), "step a.sh ended with exit code 2"),
        (message(failedStep={"name": "a", "path": "a.sh", "signal": 9}), "step a (a.sh) was ended by signal 9"),
        (
            message(failedStep={"path": "a.sh", "timedOut": True}, log="/x"),
            "step a.sh took too long, see /x on the host",
        ),
        (message(error="x" * 4000), "x" * LONGEST),
    ],
    ids=["empty", "text", "deep", "other types", "nothing", "error", "exit code", "signal", "time", "long"],
)
def test_an_end_is_described(text: str, told: str) -> None:
    assert failure_of(text) == told
