"""What is reported about a refused patch of a node, which the original would have sent as three."""

from __future__ import annotations

import pytest

from haulout.cluster.key import node_key
from haulout.core.action import Annotate, KeepCordoned, Label, NodeEdit, Refusal, Release, SetTaint
from haulout.surfaces.nodemaintenance.refusals import beginning, ending
from haulout.surfaces.nodemaintenance.wire import DRAIN_TAINT
from tests.build.rows import START

NODE = node_key("n0")
LABEL = Label(NODE, "label", "true")
TAINT = SetTaint(NODE, DRAIN_TAINT, present=True)
CORDON, RELEASE = KeepCordoned(NODE, "nodemaintenance"), Release(NODE, "nodemaintenance")
REFUSAL = Refusal(403, "no", "", START)
TAINTS, CORDONS = "patching node taints failed: no", "cordon error: no"


@pytest.mark.parametrize(
    ("edits", "begun", "ended"),
    [
        pytest.param((CORDON, TAINT, LABEL), "no", TAINTS, id="all"),
        pytest.param((CORDON, TAINT), TAINTS, TAINTS, id="no label"),
        pytest.param((CORDON, LABEL), "no", CORDONS, id="no taints"),
        pytest.param((CORDON,), CORDONS, CORDONS, id="the cordon alone"),
        pytest.param((Annotate(NODE, "note", "x"),), "no", "no", id="something else"),
    ],
)
def test_the_first_of_the_originals_steps_is_named(edits: tuple[NodeEdit, ...], begun: str, ended: str) -> None:
    at_the_end = [RELEASE if edit is CORDON else edit for edit in edits]
    assert (beginning(edits, REFUSAL), ending(at_the_end, REFUSAL)) == (begun, ended)
