"""What `haulout uncordon` says of a node with the mark of a NodeMaintenance."""

from __future__ import annotations

import pytest

from haulout.byhand.uncordon import claims
from haulout.model.node import Node, NodeMeta, NodeSpec, Taint

MARKED = Node(NodeMeta(name="n0"), NodeSpec(taints=(Taint("medik8s.io/drain", effect="NoSchedule"),)))


@pytest.mark.parametrize(
    ("maintenances", "told"),
    [
        pytest.param(["a"], "NodeMaintenance a holds it and will cordon it again", id="there"),
        pytest.param([], "then run: haulout let-go node/n0", id="gone"),
        pytest.param(None, "a NodeMaintenance holds it (taint medik8s.io/drain)", id="unreadable"),
    ],
)
def test_the_mark_of_a_maintenance(maintenances: list[str] | None, told: str) -> None:
    (said,) = claims(MARKED, {"nodemaintenance": maintenances})
    assert told in said


def test_a_node_without_a_mark() -> None:
    assert claims(Node(NodeMeta(name="n0")), {}) == []
