"""Which actions a pause holds back: what is known to be harmless goes on, and what nothing is known about does not."""

from __future__ import annotations

import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import Taint
from haulout.core import cordon
from haulout.core.action import (
    Action,
    Annotate,
    Cordon,
    Create,
    Delete,
    Evict,
    Finalize,
    KeepCordoned,
    Label,
    Patch,
    Release,
    Say,
    Send,
    SetTaint,
)
from haulout.core.disruption import Disruptions

NODE, POD = node_key("n"), Key("", "Pod", "shop", "web")
OWN, LEASE = Key("", "Buoy", "", "b"), Key("", "Lease/coordination", "coordination", "l")
TAINT = Taint("t", "NoSchedule")
RULES = Disruptions(["known", "acme.com/*", "state=fine"])


@pytest.mark.parametrize(
    "action",
    [
        Evict(POD, "u"),
        Delete(POD, "u"),
        Delete(NODE, "u"),
        KeepCordoned(NODE, "acme"),
        Cordon(NODE, unschedulable=True),
        SetTaint(NODE, TAINT, present=True),
        Label(NODE, "state", "out"),
        Annotate(NODE, "reboot", "now"),
        Annotate(Key("", "BareMetalHost", "metal", "h"), "off", "yes"),
        Annotate(OWN, "approved", "true", disrupts=True),
        Patch(NODE, {"spec": {}}),
        Create(POD, {}),
        Send("power", "cloud", "off"),
    ],
    ids=repr,
)
def test_what_disrupts(action: Action) -> None:
    assert RULES.disrupts(action, OWN)


@pytest.mark.parametrize(
    "action",
    [
        Release(NODE, "acme"),
        Cordon(NODE, unschedulable=False),
        SetTaint(NODE, TAINT, present=False),
        Label(NODE, "known", "x"),
        Label(NODE, "state", "fine"),
        Annotate(NODE, "acme.com/entry", "x"),
        Annotate(NODE, cordon.ANNOTATION, "{}"),
        Label(NODE, "out", None),
        Finalize(OWN, "f", present=True),
        Annotate(OWN, "note", "x"),
        Patch(OWN, {"spec": {}}),
        Delete(OWN, "u"),
        Patch(NODE, {"status": {}}, "status"),
        Create(LEASE, {}),
        Create(POD, {}, disrupts=False),
        Send("mail", "mail", "hello", disrupts=False),
        Say("done"),
    ],
    ids=repr,
)
def test_what_goes_on(action: Action) -> None:
    assert not RULES.disrupts(action, OWN)


def test_a_node_that_a_decision_is_about_is_not_its_own_record() -> None:
    assert RULES.disrupts(Label(NODE, "reboot", "now"), NODE)
