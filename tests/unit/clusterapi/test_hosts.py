"""Metal3 hosts: off while an approved Machine stands on them, and never for any other object."""

from __future__ import annotations

import pytest

from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.cluster.view import NotListed
from haulout.core.action import Tell
from haulout.core.decision import Decision
from haulout.core.declaration import Context
from haulout.surfaces.clusterapi.options import Options, make_options
from haulout.surfaces.clusterapi.settings import ClusterApiSettings
from haulout.surfaces.clusterapi.wire import CLUSTER, HOST, MACHINE, PAUSED, REBOOT_MODE, HostRow, MachineRow
from tests.build.machines import HOSTS, H, ask, cluster, edits, host, machine, picture, steps
from tests.build.rows import at

ON = "metal3://fleet/h/m3"


def on_host(name: str = "m", *, provider: str = ON, request: str | None = "approved", **more: object) -> MachineRow:
    """Return a Machine on a host. It need not be enabled, nor have a Node."""
    return machine(name, enabled=None, node="", provider=provider, request=request, **more)  # type: ignore[arg-type]


def decide(*rows: Row, options: Options | None = None) -> Decision:
    return ask(HOSTS, picture(*rows, options=options or Options(enable_metal3_maintenance=True)), key=H)


def test_an_approved_machine_holds_its_host_off() -> None:
    assert steps(decide(on_host(), host())) == [["h: reboot=", "Normal HostPowerOffRequested on m"]]


def test_what_is_off_already_is_left_alone() -> None:
    assert not decide(on_host(), host(reboot="")).actions


@pytest.mark.parametrize("request_", [None, "requested", "Approved", ""])
def test_without_an_approval_it_is_let_go(request_: str | None) -> None:
    assert steps(decide(on_host(request=request_), host(reboot=""))) == [["h: -reboot", "Normal HostReleased on m"]]
    assert not decide(on_host(request=request_), host()).actions


@pytest.mark.parametrize("value", ["", '{"mode":"hard"}', "foreign"])
def test_a_host_without_a_machine_is_released_whatever_the_value(value: str) -> None:
    store = picture(host(reboot=value), options=Options(enable_metal3_maintenance=True))
    first = ask(HOSTS, store, key=H)
    assert (first.actions, first.until) == ((), at(10))
    assert not ask(HOSTS, store, at(9.999), key=H).actions
    assert steps(ask(HOSTS, store, at(10), key=H)) == [["h: -reboot", "Normal HostReleased on h"]]


def test_a_host_whose_machine_comes_a_little_later_stays_off() -> None:
    """As when both are moved to another management cluster."""
    store = picture(host(reboot=""), options=Options(enable_metal3_maintenance=True))
    ask(HOSTS, store, key=H)
    store.put(on_host())
    decision = ask(HOSTS, store, at(9), key=H)
    assert (decision.actions, decision.marks) == ((), ())
    assert not ask(HOSTS, store, at(60), key=H).actions


def test_a_deleting_machine_keeps_its_host_off() -> None:
    assert edits(decide(on_host(deleting=0), host())) == ["h: reboot="]
    assert not decide(on_host(deleting=0), host(reboot="")).actions


def test_of_several_machines_one_approved_is_enough() -> None:
    rows = (on_host("a", request=None), on_host("b"), on_host("c", request="requested"))
    assert steps(decide(*rows, host())) == [["h: reboot=", "Normal HostPowerOffRequested on b"]]
    assert not decide(*rows, host(reboot="")).actions


@pytest.mark.parametrize(
    "provider",
    [
        "",
        "metal3://5f1c0000-0000-0000-0000-000000000000",
        "aws:///eu-central-1/i-0abc",
        "metal3:/fleet/h",
        "metal3://other/h/m3",
        "metal3://fleet/other/m3",
        "Metal3://fleet/h/m3",
    ],
)
def test_other_provider_ids_switch_nothing_off(provider: str) -> None:
    assert not decide(on_host(provider=provider), host()).actions
    store = picture(on_host(provider=provider), host(reboot=""), options=Options(enable_metal3_maintenance=True))
    ask(HOSTS, store, key=H)
    assert edits(ask(HOSTS, store, at(10), key=H)) == ["h: -reboot"]


@pytest.mark.parametrize("provider", ["metal3://fleet/h", "metal3://fleet/h/", "metal3://fleet/h/m3/more"])
def test_what_comes_after_the_host_need_not_be_there(provider: str) -> None:
    assert edits(decide(on_host(provider=provider), host())) == ["h: reboot="]


def test_a_host_that_is_not_there_yet_is_not_missed() -> None:
    assert decide(on_host()) == Decision()


# Whose it is


@pytest.mark.parametrize(
    "found",
    [host(consumer="m3"), host(consumer="m3", consumer_namespace="fleet"), host(), host(consumer_namespace="other")],
    ids=["name", "name and namespace", "nobody", "no name"],
)
def test_a_host_in_use_by_the_machine_is_switched_off(found: HostRow) -> None:
    assert edits(decide(on_host(), found)) == ["h: reboot="]


@pytest.mark.parametrize(
    "found",
    [host(consumer="another"), host(consumer="m3", consumer_namespace="other")],
    ids=["name", "namespace"],
)
def test_a_host_in_use_by_another_is_not(found: HostRow) -> None:
    assert steps(decide(on_host(), found)) == [["Warning HostOwnershipMismatch on m"]]


def test_a_provider_id_that_names_no_machine_is_believed() -> None:
    assert edits(decide(on_host(provider="metal3://fleet/h"), host(consumer="another"))) == ["h: reboot="]


def test_the_rightful_one_is_served_and_the_other_told() -> None:
    rows = (on_host("mine"), on_host("theirs", provider="metal3://fleet/h/else"))
    assert steps(decide(*rows, host(consumer="m3"))) == [
        ["Warning HostOwnershipMismatch on theirs"],
        ["h: reboot=", "Normal HostPowerOffRequested on mine"],
    ]


def test_a_host_that_must_not_be_switched_off_is_not() -> None:
    assert steps(decide(on_host(), host(stays_on=True))) == [["Warning HostPowerOffDisabled on m"]]


@pytest.mark.parametrize("found", [host(reboot="", consumer="another"), host(reboot="", stays_on=True)])
def test_our_own_annotation_may_always_be_removed(found: HostRow) -> None:
    assert edits(decide(on_host(request=None), found)) == ["h: -reboot"]


@pytest.mark.parametrize("found", [host(reboot="", consumer="another"), host(reboot="", stays_on=True)])
def test_what_was_switched_off_before_stays_so(found: HostRow) -> None:
    assert not decide(on_host(), found).actions


# Pause


@pytest.mark.parametrize("rows", [(on_host(notes={PAUSED: ""}),), (on_host(), cluster(paused=True))])
@pytest.mark.parametrize("found", [host(), host(reboot="foreign")])
def test_the_host_of_a_paused_machine_is_not_written(rows: tuple[Row, ...], found: HostRow) -> None:
    assert not decide(*rows, found).actions


def test_the_host_of_a_paused_machine_is_not_released() -> None:
    assert not decide(on_host(request=None, notes={PAUSED: ""}), host(reboot="")).actions


def test_until_it_is_known_which_machines_there_are_nothing_is_released() -> None:
    store = picture(host(reboot=""), waiting=[("", MACHINE)])
    with pytest.raises(NotListed):
        ask(HOSTS, store, key=H)
    store = picture(host(reboot=""), on_host(request=None), waiting=[("", CLUSTER)])
    assert not ask(HOSTS, store, key=H).actions


# How it is switched off

MODES = Options(enable_metal3_maintenance=True, reboot_mode_annotation=True)


@pytest.mark.parametrize(
    "options, notes, value",
    [
        (MODES, {REBOOT_MODE: "hard"}, '{"mode":"hard"}'),
        (MODES, {REBOOT_MODE: "soft"}, ""),
        (MODES, {}, ""),
        (Options(enable_metal3_maintenance=True), {REBOOT_MODE: "hard"}, ""),
    ],
    ids=["hard", "soft", "not said", "not allowed"],
)
def test_the_mode(options: Options, notes: dict[str, str], value: str) -> None:
    assert edits(decide(on_host(notes=notes), host(), options=options)) == [f"h: reboot={value}"]
    assert not decide(on_host(notes=notes), host(reboot=value), options=options).actions


def test_the_mode_can_change_while_it_is_off() -> None:
    hard = on_host(notes={REBOOT_MODE: "hard"})
    assert edits(decide(hard, host(reboot=""), options=MODES)) == ['h: reboot={"mode":"hard"}']


def test_events_are_of_the_core_api() -> None:
    for decision in (decide(on_host(), host()), decide(host(reboot="")), decide(on_host(), host(stays_on=True))):
        assert all(said.core for step in decision.actions for said in step if isinstance(said, Tell))


def test_a_host_that_is_gone_wants_nothing() -> None:
    assert ask(HOSTS, picture(), key=Key("", HOST, "fleet", "gone")) == Decision()


# Beside other surfaces: only for the Machine that uses the host, in its own namespace

# As beside other surfaces.
OWNED = make_options(ClusterApiSettings(enable_metal3_maintenance=True), Context(alone=False))
MISMATCH = "Warning HostOwnershipMismatch on m"


@pytest.mark.parametrize(
    "made, about",
    [
        pytest.param(on_host(), host(consumer="m3"), id="named by the provider ID"),
        pytest.param(on_host(), host(consumer="m3", consumer_namespace="fleet"), id="and by namespace"),
        pytest.param(
            on_host(provider="metal3://fleet/h", infrastructure="m3"), host(consumer="m3"), id="named by the Machine"
        ),
    ],
)
def test_the_machine_that_uses_a_host_switches_it_off(made: MachineRow, about: HostRow) -> None:
    assert edits(decide(made, about, options=OWNED)) == ["h: reboot="]


@pytest.mark.parametrize(
    "made, about",
    [
        pytest.param(on_host(namespace="other"), host(consumer="m3"), id="another namespace"),
        pytest.param(
            on_host(namespace="other"), host(consumer="m3", consumer_namespace="other"), id="whatever the host says"
        ),
        pytest.param(on_host(), host(consumer="another"), id="another consumer"),
        pytest.param(on_host(), host(consumer="m3", consumer_namespace="other"), id="a consumer elsewhere"),
        pytest.param(on_host(), host(), id="no consumer"),
        pytest.param(on_host(provider="metal3://fleet/h"), host(consumer="m3"), id="a Machine of nothing"),
    ],
)
def test_nobody_else_does(made: MachineRow, about: HostRow) -> None:
    assert steps(decide(made, about, options=OWNED)) == [[MISMATCH]]


def test_machines_of_other_namespaces_neither_keep_a_host_off_nor_stop_anything() -> None:
    stranger = on_host("m", namespace="other", notes={PAUSED: ""})
    own = on_host("own", request=None)
    assert edits(decide(stranger, own, host(consumer="m3", reboot=""), options=OWNED)) == ["h: -reboot"]
    approved = on_host("own")
    assert edits(decide(stranger, approved, host(consumer="m3"), options=OWNED)) == ["h: reboot="]
