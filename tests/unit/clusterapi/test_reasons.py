"""The reasons that people see for a Machine."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.cluster.view import View
from haulout.core.reason import Reason
from haulout.surfaces.clusterapi.decide import decide
from haulout.surfaces.clusterapi.hosts import reasons as host_reasons
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.wire import (
    CLEANUP,
    CLUSTER_LABEL,
    LIMITED_SECRET,
    PAUSED,
    HostRow,
    MachineRow,
    SecretRow,
)
from tests.build.machines import M, cluster, connection, hooked, host, linked, machine, node, picture, secret
from tests.build.rows import at

TIMEOUT = Options(deletion_approval_timeout=timedelta(seconds=30))
MARKED = {CLEANUP: "2026-03-01T10:00:00Z"}


def told(*rows: Row, options: Options | None = None) -> list[str]:
    return [_text(reason) for reason in _reasons(*rows, options=options)]


def _reasons(*rows: Row, options: Options | None = None) -> tuple[Reason, ...]:
    asked = next(row.key for row in rows if isinstance(row, MachineRow))
    store = linked(*rows, options=options)
    return decide(asked, View(store, explaining=True), at(60)).reasons


def _text(reason: Reason) -> str:
    return " < ".join([reason.text, *map(_text, reason.because)])


@pytest.mark.parametrize(
    "asked, about, expected",
    [
        (hooked(), node(), "no maintenance is requested; its deletion would wait for Node n"),
        (machine(), node(approve_deletion="true"), "would not wait: Node n says"),
        (hooked(deleting=40), node(deleted="true"), "its deletion waits for label"),
        (hooked(deleting=0), node(deleted="true"), "its deletion was not approved in time: its hook is removed"),
        (machine(deleting=0), node(deleted="true"), "its deletion was not approved in time: Cluster API goes on"),
        (machine(deleting=0), node(deleted="true", approve_deletion="true"), "Node n is approved for deletion"),
        (hooked(deleting=0, node="gone"), node(), "is not in workload cluster fleet/alpha: its deletion will not wait"),
        (
            machine(deleting=0, node="gone"),
            node(),
            "is not in workload cluster fleet/alpha: its deletion does not wait",
        ),
        (hooked(notes={PAUSED: ""}), node(), "the Machine is paused"),
        (machine(enabled=None), node(), "the Machine is not enabled: label"),
        (
            machine(enabled=None, notes=MARKED),
            node(maintenance="true"),
            "the labels of Node n are still to be removed, for ten minutes",
        ),
    ],
)
def test_each_state_is_told_as_it_is(asked: MachineRow, about: Row, expected: str) -> None:
    (text,) = told(asked, about, options=TIMEOUT)
    assert expected in text


def test_what_is_paused_is_named() -> None:
    (reason,) = _reasons(hooked(), cluster(paused=True), node())
    assert reason.text.startswith("Cluster fleet/alpha is paused")
    assert reason.act == "unpause Cluster fleet/alpha"


def asked_away(about: MachineRow, state: str) -> tuple[Reason, ...]:
    store = picture(secret(), connection(state, since=0, error="no"), about, node())
    return decide(about.key, View(store, explaining=True), at(60)).reasons


@pytest.mark.parametrize("state, act", [("unreachable", "answers from here"), ("unauthorized", "patch nodes into")])
def test_what_helps_depends_on_who_refuses(state: str, act: str) -> None:
    (reason,) = asked_away(hooked(), state)
    assert act in reason.act


@pytest.mark.parametrize("state", ["invalid", "rejected", "unauthorized"])
def test_what_helps_names_the_secret_that_counts(state: str) -> None:
    """The one that is preferred, not the one that stands behind it."""
    key = Key("", LIMITED_SECRET, "fleet", "mine")
    limited = SecretRow(key=key, uid="uid-mine", version=1, labels={CLUSTER_LABEL: "alpha"}, value=b"limited")
    away = connection(state, since=0, error="no")
    for options, name in (
        (Options(prefer_limited_kubeconfigs=True), "fleet/mine"),
        (Options(), "fleet/alpha-kubeconfig"),
    ):
        store = picture(secret(), limited, away, hooked(), node(), options=options)
        (reason,) = decide(M, View(store, explaining=True), at(60)).reasons
        assert f"Secret {name}" in reason.act


def test_a_cluster_that_is_away_is_told_of_besides() -> None:
    assert [reason.code for reason in asked_away(machine(node=""), "unreachable")] == ["no-node", "unreachable"]
    (reason,) = asked_away(machine(enabled=None, notes=MARKED), "unreachable")
    assert [reason.code, *(each.code for each in reason.because)] == ["cleaning", "unreachable"]


@pytest.mark.parametrize(
    "about, code",
    [
        (None, "host-missing"),
        (host(reboot=""), "host-off"),
        (host(consumer="other"), "host-left-alone"),
        (host(stays_on=True), "host-left-alone"),
        (host(), "unwritten"),
    ],
)
def test_how_it_stands_with_the_host(about: HostRow | None, code: str) -> None:
    approved = hooked(request="approved", provider="metal3://fleet/h/m3")
    (reason,) = host_reasons(approved, about, Options())
    assert reason.code == code
    assert "fleet/h" in reason.text
    assert not host_reasons(hooked(request="approved"), about, Options()), "it has none"
