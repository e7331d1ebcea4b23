"""Explains a Machine of Cluster API and its Node in the workload cluster: what each of them waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from haulout.base.clock import SystemClock
from haulout.cluster.key import Key, node_key
from haulout.cluster.project import RESOURCES, Keep, Projector, Resource, kind_of_one
from haulout.cluster.rows import Connection, NodeRow, Value
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import CONFIG, View
from haulout.core.action import Annotate, Label
from haulout.core.decision import Decision
from haulout.core.reason import Reason, best_act
from haulout.explain.documents import as_json, explanation_document
from haulout.explain.home import home_endpoint
from haulout.explain.node import Explanation, as_text, explain, own_act
from haulout.explain.operators import OperatorState, operator_state
from haulout.explain.paint import echo
from haulout.explain.setup import Setup, setup_of
from haulout.explain.snapshot import picture
from haulout.kube.allowed_addresses import Reach, is_local
from haulout.kube.config import from_secret
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ApiError, ConfigRefused, KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.sink import trouble_code
from haulout.kube.transport import Transport
from haulout.runtime.interruption import run_command
from haulout.runtime.served_versions import serving
from haulout.surfaces.clusterapi.decide import decide
from haulout.surfaces.clusterapi.hosts import reasons as host_reasons
from haulout.surfaces.clusterapi.link import link
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.present import ON_NODE
from haulout.surfaces.clusterapi.wire import (
    APPROVED,
    CLUSTER,
    HOST,
    HOST_KEEP,
    LIMITED_SECRET,
    MACHINE,
    MACHINE_KEEP,
    NODE_KEEP,
    OWN_KINDS,
    REQUEST,
    SECRET,
    SURFACE,
    Access,
    HostRow,
    MachineRow,
    Workload,
    machine_key,
)

ANSWER_WITHIN = 10.0
KINDS = {resource.kind: resource for resource in OWN_KINDS}


def explain_machine(name: str, config: str, output: str, cluster: Mapping[str, Any]) -> int:
    endpoint = home_endpoint(cluster, config)
    try:
        setup = setup_of(config, endpoint)
        found, operator = run_command(_explained(machine_key(endpoint.namespace, name), setup, endpoint))
    except KubeError as error:
        raise click.ClickException(f"Machine {endpoint.namespace}/{name} cannot be read: {error}") from None
    if found is None:
        raise click.ClickException(f"there is no Machine named {name} in namespace {endpoint.namespace}")
    found = msgspec.structs.replace(found, settings=setup.origin, incomplete=setup.unread, operator=operator)
    if output == "json":
        click.echo(as_json(explanation_document(found)))
    else:
        echo(as_text(found, datetime.now(UTC)))
    return operator.exit_code


async def _explained(key: Key, setup: Setup, endpoint: Endpoint) -> tuple[Explanation | None, OperatorState]:
    home = HttpTransport(endpoint, SystemClock())
    try:
        machine, asked_at = await _machine(home, key)
        if machine is None:
            return None, OperatorState()
        operator = await operator_state(setup, home, SystemClock().now, others=(SURFACE,))
        store, options = Store(), _options(setup)
        store.write(Value(key=Key("", CONFIG, "", SURFACE), value=options))
        store.put(machine)
        store.set_listing("", MACHINE, Listing.LISTED)
        await _surroundings(store, home, machine.workload, options)
        inner = await _workload(store, machine, setup, endpoint.server)
        host = await _host(store, home, machine, options) if options.enable_metal3_maintenance else ()
    finally:
        await home.close()
    decision = decide(key, View(store, explaining=True), datetime.now(UTC))
    return _explanation(machine, decision, inner, asked_at, host), operator


def _options(setup: Setup) -> Options:
    found = setup.options(SURFACE)
    return found if isinstance(found, Options) else Options(owned_hosts_only=setup.together)


async def _machine(home: Transport, key: Key) -> tuple[MachineRow | None, datetime | None]:
    """Return the Machine, and when the label that requests its maintenance was last written."""
    resource = await serving(home, KINDS[MACHINE], within=ANSWER_WITHIN)
    if resource is None:
        raise KubeError("Cluster API is not installed there: machines.cluster.x-k8s.io is not served")
    try:
        reply = await home.request("GET", resource.object_path(key), timeout=ANSWER_WITHIN)
    except NotFound:
        return None, None
    row = Projector(resource, "", MACHINE_KEEP).row(msgspec.json.decode(reply.body, type=resource.model))
    assert isinstance(row, MachineRow)
    return row, _written_at(msgspec.json.decode(reply.body), REQUEST)


def _written_at(raw: Mapping[str, Any], label: str) -> datetime | None:
    """Return when the field manager that owns a label last wrote to the object."""
    for entry in raw["metadata"].get("managedFields") or ():
        fields = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
        if f"f:{label}" in fields and entry.get("time"):
            return datetime.fromisoformat(entry["time"])
    return None


async def _surroundings(store: Store, home: Transport, workload: Workload, options: Options) -> None:
    """Read the Machine's Cluster and the Secrets that may hold its kubeconfig into the store.

    The table of a kind that we may not read is marked as unreadable.
    """
    clusters = await serving(home, KINDS[CLUSTER], within=ANSWER_WITHIN)
    if clusters is None:
        store.set_listing("", CLUSTER, Listing.UNREADABLE)
    else:
        await _read(store, home, clusters, Key("", CLUSTER, workload.namespace, workload.name))
    name = f"{workload.name}-kubeconfig"
    kind = kind_of_one(SECRET, workload.namespace, name)
    await _read(store, home, KINDS[SECRET].within(workload.namespace, name), Key("", kind, workload.namespace, name))
    if options.prefer_limited_kubeconfigs:
        await _read_limited(store, home, workload.namespace)


async def _read(store: Store, transport: Transport, resource: Resource, key: Key, keep: Keep | None = None) -> None:
    try:
        reply = await transport.request("GET", resource.object_path(key), timeout=ANSWER_WITHIN)
    except NotFound:
        pass
    except ApiError as error:
        store.set_listing(key.cluster, key.kind, Listing.UNREADABLE, str(error))
        return
    else:
        projector = Projector(resource, key.cluster, keep or Keep())
        store.put(projector.row(msgspec.json.decode(reply.body, type=resource.model)))
    store.set_listing(key.cluster, key.kind, Listing.LISTED)


async def _read_limited(store: Store, home: Transport, namespace: str) -> None:
    resource = KINDS[LIMITED_SECRET]
    try:
        path = resource.collection_path(namespace)
        reply = await home.request("GET", path, query={"labelSelector": resource.labels}, timeout=ANSWER_WITHIN)
    except ApiError as error:
        store.set_listing("", LIMITED_SECRET, Listing.UNREADABLE, str(error))
        return
    projector = Projector(resource, "", Keep())
    for item in msgspec.json.decode(reply.body)["items"]:
        store.put(projector.row(msgspec.convert(item, resource.model)))
    store.set_listing("", LIMITED_SECRET, Listing.LISTED)


async def _host(store: Store, home: Transport, machine: MachineRow, options: Options) -> tuple[Reason, ...]:
    if machine.request != APPROVED or machine.host is None:
        return ()
    resource = await serving(home, KINDS[HOST], within=ANSWER_WITHIN)
    if resource is None:
        return (Reason("host-missing", machine.key, "Metal3 is not installed here: nothing is switched off"),)
    key = Key("", HOST, machine.host.namespace, machine.host.name)
    await _read(store, home, resource, key, HOST_KEEP)
    if store.listing("", HOST) is not Listing.LISTED:
        return ()
    row = store.row(key)
    return host_reasons(machine, row if isinstance(row, HostRow) else None, options)


async def _workload(store: Store, machine: MachineRow, setup: Setup, home: str) -> Explanation | None:
    """Read the Machine's Node in the workload cluster, and explain what it waits for.

    `home`: the address of the management cluster.
    """
    workload = machine.workload
    way = link(View(store), workload, _options(setup), datetime.now(UTC))
    access = next((source.access for source in way.sources if isinstance(source.access, Access)), None)
    if access is None or not machine.node:
        return None
    try:
        reach = Reach(access.server_ranges, loopback=await is_local(home), plain_http=access.allow_http)
        opened = from_secret(access.kubeconfig, source=access.source, reach=reach, may_run=access.allow_exec)
    except KubeError as error:
        state = Connection.REJECTED if isinstance(error, ConfigRefused) else Connection.INVALID
        _note(store, workload, state, str(error))
        return None
    transport = HttpTransport(opened.endpoint, SystemClock(), tls=opened.tls)
    try:
        key = node_key(machine.node, workload.cluster)
        await _read(store, transport, RESOURCES["Node"], key, NODE_KEEP)
        table = store.table(*key[:2])
        if table.listing is Listing.UNREADABLE:
            _note(store, workload, "unreadable", table.why)
        if not isinstance(store.row(key), NodeRow):
            return None
        kernel = await picture(setup, transport)
        return explain(kernel, setup.enabled, node_key(machine.node), datetime.now(UTC))
    except KubeError as error:
        _note(store, workload, trouble_code(error), str(error))
        return None
    finally:
        await transport.close()


def _note(store: Store, workload: Workload, state: str, error: str) -> None:
    store.write(Connection(key=Key(workload.cluster, Connection.KIND, "", ""), state=state, error=error))


def _explanation(
    machine: MachineRow,
    decision: Decision,
    inner: Explanation | None,
    asked_at: datetime | None,
    host: tuple[Reason, ...],
) -> Explanation:
    reasons = tuple(_through(reason, inner, asked_at) for reason in decision.reasons)
    reasons = (*reasons, *_unwritten(machine, decision), *host)
    workload = machine.workload.cluster
    flags = [f"workload cluster {workload}"]
    if machine.deleting_at is not None:
        flags.append("being deleted")
    return Explanation(
        node=machine.node,
        flags=tuple(flags),
        cordon="",
        holds=inner.holds if inner else (),
        reasons=reasons,
        act=(own_act(inner.reasons) if inner else "")
        or best_act(reasons)
        or next((each.act for each in reasons if each.act), inner.act if inner else ""),
        about=("machine", f"{machine.key.namespace}/{machine.key.name}"),
        has_own_flags=True,
        last_grace_ends_at=inner.last_grace_ends_at if inner else None,
    )


def _through(reason: Reason, inner: Explanation | None, asked_at: datetime | None) -> Reason:
    """Add the Node's reasons below a reason of the Machine that waits for its Node."""
    text = reason.text
    if reason.code == "maintenance-not-approved" and asked_at is not None:
        text = f"{text} (asked for at {asked_at:%Y-%m-%d %H:%M:%S} UTC)"
    because = tuple(
        msgspec.structs.replace(each, because=inner.reasons) if inner and each.code == ON_NODE else each
        for each in reason.because
    )
    return msgspec.structs.replace(reason, text=text, because=because)


def _unwritten(machine: MachineRow, decision: Decision) -> Iterator[Reason]:
    """Yield the labels and annotations that the operator would write now. A running operator leaves none unwritten."""
    for step in decision.actions:
        for action in step:
            if isinstance(action, Label | Annotate):
                where = f"{action.target.kind} {action.target.name}"
                name = action.name.rpartition("/")[2]
                what = f"{name}={action.value}" if action.value is not None else f"no {name}"
                text = f"{where} is still to be given {what}: is the operator running?"
                yield Reason(
                    "unwritten",
                    machine.key,
                    text,
                    act="see that the operator runs with the clusterapi surface and holds its lease",
                )
