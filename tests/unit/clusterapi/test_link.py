"""The connection to a workload cluster: what has to be watched for it, and what is reported if there is none."""

from __future__ import annotations

import msgspec
import pytest

from haulout.cluster.project import Keep
from haulout.cluster.rows import Connection
from haulout.cluster.store import Store
from haulout.core.decision import Decision, Source
from haulout.core.expiry import EXPIRES
from haulout.surfaces.clusterapi.link import node_keep
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.surface import sources
from haulout.surfaces.clusterapi.wire import (
    CLUSTER,
    CLUSTER_LABEL,
    HOST,
    HOST_KEEP,
    LIMITED_SECRET,
    MACHINE,
    MACHINE_KEEP,
    Access,
    SecretRow,
)
from tests.build.machines import (
    ACCESS,
    FAR,
    KUBECONFIG,
    MACHINES,
    ask,
    connection,
    edits,
    hooked,
    linked,
    machine,
    node,
    picture,
    secret,
    told,
)
from tests.build.rows import at

SECRET_SOURCE = Source("", KUBECONFIG)
NODES = Source(FAR, "Node", node_keep(Options()), ACCESS)


# What is watched


@pytest.mark.parametrize(
    "options, more",
    [
        (Options(), set()),
        (Options(enable_metal3_maintenance=True), {Source("", HOST, HOST_KEEP)}),
        (Options(prefer_limited_kubeconfigs=True), {Source("", LIMITED_SECRET)}),
    ],
    ids=["as it is", "metal3", "limited"],
)
def test_what_is_watched_whatever_is_decided(options: Options, more: set[Source]) -> None:
    watched = MACHINE_KEEP | Keep(frozenset({EXPIRES}))
    assert sources(options) == {Source("", MACHINE, watched), Source("", CLUSTER)} | more


def test_the_secret_of_the_clusters_name_in_the_machines_namespace_comes_first() -> None:
    store = picture(machine(), waiting=[("", KUBECONFIG)])
    decision = ask(MACHINES, store)
    assert KUBECONFIG == "Secret/fleet/alpha-kubeconfig"
    assert (decision.sources, decision.actions) == ((SECRET_SOURCE,), ())


def test_what_was_opened_with_programs_is_closed_once_they_are_not_allowed_any_more() -> None:
    """Or they would be run again when what they gave out ends."""
    opened = msgspec.structs.replace(connection(), access=msgspec.structs.replace(ACCESS, allow_exec=True))
    store = picture(secret(), opened, hooked(request="requested"), node())
    decision = ask(MACHINES, store)
    assert (decision.sources, decision.actions) == ((SECRET_SOURCE,), ())
    store.erase(opened.key)
    assert ask(MACHINES, store).sources == (SECRET_SOURCE, NODES), "without them, if that is possible"


def test_its_nodes_are_watched_with_what_stands_in_the_secret() -> None:
    assert ask(MACHINES, picture(secret(), machine())).sources == (SECRET_SOURCE, NODES)


def test_another_content_is_another_access() -> None:
    (_, nodes) = ask(MACHINES, picture(secret(b"other"), machine())).sources
    assert nodes.access == Access("Secret fleet/alpha-kubeconfig", b"other")
    assert nodes != NODES


def test_programs_are_run_only_where_that_is_allowed() -> None:
    (_, nodes) = ask(MACHINES, picture(secret(), machine(), options=Options(allow_exec_kubeconfigs=True))).sources
    assert nodes.access == Access("Secret fleet/alpha-kubeconfig", b"kubeconfig", allow_exec=True)


def test_no_representation_shows_a_kubeconfig() -> None:
    assert "kubeconfig'" not in repr(ACCESS).replace("alpha-kubeconfig'", "")
    assert "b'" not in f"{ACCESS!r}{NODES!r}{secret()!r}{connection()!r}"


@pytest.mark.parametrize("enabled", [None, "false"])
def test_nobody_wants_the_nodes_of_machines_that_are_not_enabled(enabled: str | None) -> None:
    assert not ask(MACHINES, linked(machine(enabled=enabled), node())).sources


# What is wrong with it


def trouble(store: Store, seconds: float = 0) -> tuple[list[str], Decision]:
    decision = ask(MACHINES, store, at(seconds))
    return told(decision), decision


def test_a_kubeconfig_that_is_not_there_is_told() -> None:
    said, decision = trouble(picture(machine()))
    assert said == ["Warning KubeconfigUnavailable on m"]
    assert decision.sources == (SECRET_SOURCE,)


def test_a_secret_without_the_key_is_told() -> None:
    said, decision = trouble(picture(secret(None), machine()))
    assert said == ["Warning KubeconfigUnavailable on m"]
    assert decision.sources == (SECRET_SOURCE,)


def test_secrets_that_may_not_be_read_are_told() -> None:
    said, _ = trouble(picture(machine(), unreadable=[("", KUBECONFIG)]))
    assert said == ["Warning KubeconfigUnavailable on m"]


@pytest.mark.parametrize("rows", [(), (secret(None),)], ids=["deleted", "emptied"])
def test_a_kubeconfig_that_is_gone_cuts_nobody_off(rows: tuple[SecretRow, ...]) -> None:
    store = picture(*rows, connection(), machine(), node())
    said, decision = trouble(store)
    assert said[0] == "Warning KubeconfigUnavailable on m"
    assert decision.sources == (SECRET_SOURCE, NODES), "it goes on with what it was opened with"
    assert edits(decision), "and what is decided is done"


@pytest.mark.parametrize(
    "state, event",
    [
        (Connection.REJECTED, "KubeconfigRejected"),
        (Connection.INVALID, "KubeconfigUnavailable"),
        (Connection.ASTRAY, "WorkloadClusterUnreachable"),
        ("unreachable", "WorkloadClusterUnreachable"),
        ("unauthorized", "WorkloadClusterUnreachable"),
        ("unreadable", "WorkloadClusterUnreachable"),
        ("failing", "WorkloadClusterUnreachable"),
        ("overfull", "WorkloadClusterUnreachable"),
        (Connection.CONNECTING, "WorkloadClusterUnreachable"),
    ],
)
def test_how_one_gets_on_with_a_cluster_is_told(state: str, event: str) -> None:
    store = picture(secret(), connection(state, error="because"), hooked(), node())
    said, decision = trouble(store)
    assert said == [f"Warning {event} on m"]
    assert "because" in decision.actions[0][0].note  # type: ignore[union-attr]
    assert decision.sources == (SECRET_SOURCE, NODES)
    assert decision.actions == trouble(store, 500)[1].actions, "in the same words, so that it is told once"


def test_a_connection_that_works_is_not_worth_a_word() -> None:
    said, decision = trouble(linked(hooked(), node()))
    assert (said, decision.until) == ([], None)


@pytest.mark.parametrize("state", ["unreachable", Connection.CONNECTING, Connection.ASTRAY])
def test_trouble_that_is_over_soon_is_not_told(state: str) -> None:
    store = picture(secret(), connection(state, since=0), hooked(), node())
    said, decision = trouble(store, 4.9)
    assert (said, decision.until) == ([], at(5))
    said, decision = trouble(store, 5)
    assert (said, decision.until) == (["Warning WorkloadClusterUnreachable on m"], None)


def test_what_was_known_of_the_nodes_is_still_acted_upon() -> None:
    store = picture(
        secret(), connection("unreachable"), hooked(deleting=0), node(deleted="true", approve_deletion="true")
    )
    decision = ask(MACHINES, store)
    assert told(decision)[0] == "Warning WorkloadClusterUnreachable on m"
    assert edits(decision) == ["m: -hook"]


def test_while_the_nodes_were_never_seen_nothing_is_written() -> None:
    store = picture(secret(), connection(Connection.CONNECTING, since=0), machine(), node(), waiting=[(FAR, "Node")])
    assert not ask(MACHINES, store).actions


def test_a_paused_machine_hears_of_trouble_all_the_same() -> None:
    from haulout.surfaces.clusterapi.wire import PAUSED

    said, _ = trouble(picture(machine(notes={PAUSED: ""})))
    assert said == ["Warning KubeconfigUnavailable on m"]


# Limited kubeconfigs

PREFER = Options(prefer_limited_kubeconfigs=True)


def limited(value: bytes | None = b"limited", cluster: str = "alpha", namespace: str = "fleet") -> SecretRow:
    from haulout.cluster.key import Key

    key = Key("", LIMITED_SECRET, namespace, "mine")
    return SecretRow(key=key, uid="u", version=1, labels={CLUSTER_LABEL: cluster}, value=value)


def test_a_limited_kubeconfig_is_preferred() -> None:
    (_, nodes) = ask(MACHINES, picture(secret(), limited(), machine(), options=PREFER)).sources
    assert nodes.access == Access("Secret fleet/mine", b"limited")


@pytest.mark.parametrize(
    "other",
    [limited(None), limited(cluster="beta"), limited(namespace="other")],
    ids=["no key", "cluster", "namespace"],
)
def test_without_one_for_this_cluster_the_usual_is_used(other: SecretRow) -> None:
    assert ask(MACHINES, picture(secret(), other, machine(), options=PREFER)).sources[1] == NODES


def test_without_the_option_a_limited_one_is_not_used() -> None:
    assert ask(MACHINES, picture(secret(), limited(), machine())).sources[1] == NODES


def test_until_it_is_known_which_there_are_none_is_used() -> None:
    store = picture(secret(), machine(), options=PREFER, waiting=[("", LIMITED_SECRET)])
    decision = ask(MACHINES, store)
    assert (decision.sources, decision.actions) == ((SECRET_SOURCE,), ())


def test_where_they_may_not_be_listed_the_usual_is_used() -> None:
    store = picture(secret(), limited(), machine(), options=PREFER, unreadable=[("", LIMITED_SECRET)])
    assert ask(MACHINES, store).sources[1] == NODES


def test_number_of_nodes_that_are_read_is_a_setting() -> None:
    options = Options(max_nodes_per_cluster=7)
    store = picture(secret(), connection(), hooked(), node(), options=options)
    sources = ask(MACHINES, store).sources
    assert sources == (SECRET_SOURCE, Source(FAR, "Node", node_keep(options), ACCESS))
    assert sources[1].keep.most == 7


def test_cluster_with_too_many_nodes_is_told_of_as_one_that_cannot_be_read() -> None:
    store = picture(secret(), connection("overfull", error="it has more than 5000 nodes"), hooked(), node())
    _, decision = trouble(store)
    note = decision.actions[0][0].note  # type: ignore[union-attr]
    assert note == "workload cluster fleet/alpha cannot be read: it has more than 5000 nodes"
