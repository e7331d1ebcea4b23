"""`haulout explain NODE` names every claim on the node, also of a surface that shows no objects beside nodes."""

from __future__ import annotations

from datetime import datetime

import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.action import Label
from haulout.core.budgets.wire import KIND as BUDGET
from haulout.core.decision import Decider, Decision
from haulout.core.declaration import Declaration, Enabled
from haulout.core.holds import Claim, Want, is_granted
from haulout.explain.node import as_text, explain
from haulout.kernel.assemble import assemble
from tests.build.rows import at, node

NODE = node_key("a")
LAMP = Key("", "Lamp", "", "one")


def text_of(owner: Key, *, begun: bool) -> str:
    def decide(key: Key, view: View, now: datetime) -> Decision:
        claim = Claim(NODE, owner, frozenset({Want.CORDON}), begun=begun)
        return Decision(
            claims=(claim,), actions=((Label(NODE, "lit", "true"),),) if is_granted(view, "lamps", claim) else ()
        )

    surface = Declaration(
        name="lamps", deciders=(Decider("lamps", "Node", decide),), sources=lambda settings: frozenset()
    )
    enabled = (Enabled(surface),)
    kernel = assemble(enabled, together=True).kernel
    kernel.store.write(node("a"))
    for kind in ("Node", BUDGET):
        kernel.store.set_listing("", kind, Listing.LISTED)
    kernel.run(at(0))
    found = explain(kernel, enabled, NODE, at(0))
    assert found is not None
    return as_text(found, at(0))


@pytest.mark.parametrize(
    ("owner", "begun", "lines"),
    [
        pytest.param(LAMP, True, ["node a", "  held by lamps", "  Lamp one of lamps claims it"], id="of an object"),
        pytest.param(NODE, True, ["node a", "  held by lamps", "  lamps claims it"], id="of a decision about nodes"),
        pytest.param(
            LAMP, False, ["node a", "  wanted by lamps: granted", "  Lamp one of lamps claims it"], id="not begun yet"
        ),
    ],
)
def test_a_claim_that_no_other_reason_explains_is_one(owner: Key, begun: bool, lines: list[str]) -> None:
    assert text_of(owner, begun=begun).splitlines() == lines
