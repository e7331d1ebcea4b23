"""Answers are cut to what their caller may read."""

from __future__ import annotations

import pytest

from haulout.console.encoding import encode
from haulout.console.sight import Sight, namespaces_in, visible_part

POD = "pod shop/api-7f: PodDisruptionBudget shop/api allows no disruption now"


def test_a_caller_who_may_read_all_gets_all() -> None:
    assert visible_part({"text": POD}, Sight()) == {"text": POD}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (POD, "a pod that you may not read: needs list pods in shop"),
        ("kubectl -n shop rollout undo deploy/api", "a pod that you may not read: needs list pods in shop"),
        ("pod web/front is not ready", "pod web/front is not ready"),
        ("node/a waits", "node/a waits"),
        ("the label example.com/rack has no value", "the label example.com/rack has no value"),
    ],
)
def test_a_pod_of_a_namespace_that_the_caller_may_not_read_is_not_named(text: str, shown: str) -> None:
    assert visible_part([text], Sight(pods=frozenset({"web"}))) == [shown]


def test_a_disruption_budget_has_a_right_of_its_own() -> None:
    sight = Sight(budgets=frozenset())
    assert "poddisruptionbudgets in shop" in visible_part(POD, sight)
    assert visible_part("pod shop/api is being evicted", sight) == "pod shop/api is being evicted"


def test_an_object_of_a_kind_that_the_caller_may_not_list_is_not_named() -> None:
    sight = Sight((("NodeMaintenance", "nodemaintenances"), ("NodeDisruptionBudget", "nodedisruptionbudgets")))
    hidden = "a NodeMaintenance that you may not read: needs list nodemaintenances"
    assert visible_part("nodemaintenance/one", sight) == hidden
    assert visible_part("NodeMaintenance one claims it", sight) == hidden
    assert "nodedisruptionbudgets" in visible_part("budget night: its window is closed", sight)
    assert encode({"budgets": [{"name": "night"}]}, sight) == b'{"budgets":[]}'


def test_labels_are_those_of_nodes() -> None:
    row = {"labels": {"shop/team": "shop/api"}, "cause": POD}
    assert visible_part(row, Sight(pods=frozenset()))["labels"] == row["labels"]


def test_the_namespaces_that_texts_name() -> None:
    assert namespaces_in({"text": POD, "act": "kubectl -n web delete pod x", "labels": {"a": "kube/x"}}) == {
        "shop",
        "web",
    }
