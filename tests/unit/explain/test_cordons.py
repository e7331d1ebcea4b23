"""Which client cordoned a node by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from haulout.explain.cordons import UNKNOWN, cordon_text

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def noted(manager: str, time: str, spec: Any) -> dict[str, Any]:
    return {"manager": manager, "time": time, "fieldsV1": {"f:spec": spec}}


def test_the_client_that_cordoned_it_is_named() -> None:
    fields = [
        noted("kubelet", "2026-03-01T11:59:00Z", {"f:podCIDR": {}}),
        noted("kubectl-cordon", "2026-03-01T11:00:00Z", {"f:unschedulable": {}}),
    ]
    found = cordon_text({"metadata": {"managedFields": fields}}, NOW)
    assert found == "cordoned by hand, with kubectl-cordon, by 2026-03-01 11:00:00 UTC (1 h ago)"


def test_the_operator_is_no_person() -> None:
    fields = [noted("haulout", "2026-03-01T11:00:00Z", {"f:unschedulable": {}})]
    found = cordon_text({"metadata": {"managedFields": fields}}, NOW)
    assert found == "cordoned by an operator of Haulout, by 2026-03-01 11:00:00 UTC (1 h ago)"


@pytest.mark.parametrize(
    "fields",
    [None, [], [None], [{}], [noted("m", "", [])], [{"manager": "m", "fieldsV1": {"f:spec": {"f:taints": {}}}}]],
)
def test_what_is_not_noted_is_not_guessed(fields: Any) -> None:
    assert cordon_text({"metadata": {"managedFields": fields}}, NOW) == UNKNOWN


def test_a_time_that_is_none() -> None:
    fields = [noted("", "soon", {"f:unschedulable": {}})]
    assert cordon_text({"metadata": {"managedFields": fields}}, NOW) == "cordoned by hand, with a client without a name"
