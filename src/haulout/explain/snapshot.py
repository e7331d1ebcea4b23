"""Reads a cluster once, runs the decisions on it without acting, and prints the explanation of an object."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from haulout.base.clock import SystemClock
from haulout.cluster.key import Key, node_key
from haulout.cluster.kinds import Kinds
from haulout.cluster.project import RESOURCES, Keep, Projector, Resource
from haulout.cluster.rows import ObjectRow, Value
from haulout.cluster.store import Listing, Store
from haulout.core.cordon import ANNOTATION
from haulout.core.decision import Source
from haulout.core.declaration import Declaration, Enabled, NodeObjects, ServerVersion
from haulout.core.node_signs import shows_sign
from haulout.core.override import GUARD, GUARDED
from haulout.core.steering import OVERRIDE
from haulout.core.surface import Explained, NodeSign
from haulout.core.surface_lease import lease_row
from haulout.explain.cordons import cordon_text
from haulout.explain.documents import as_json, explanation_document
from haulout.explain.home import home_endpoint
from haulout.explain.kinds import NODE
from haulout.explain.node import as_text, explain, explain_listed
from haulout.explain.operators import OperatorState, is_namespace_missing, operator_state
from haulout.explain.paint import echo
from haulout.explain.setup import Setup, setup_of
from haulout.kernel.assemble import Assembly, assemble, merge_sources
from haulout.kernel.kernel import Kernel
from haulout.kernel.proofs import settle
from haulout.kube.discovery import may_be_openshift
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ApiError, KubeError, NotFound, Unauthorized
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport
from haulout.model.lease import Lease
from haulout.model.node import Node
from haulout.runtime.interruption import run_command
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump
from haulout.serve.override_guard import override_guard
from haulout.surfaces.registry import surface

LIST_WITHIN = 60.0
# The ledger is read even where no surface is left that does: its object may have vanished.
NODES = Source("", "Node", Keep(frozenset({ANNOTATION})))


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


class NodeList(msgspec.Struct, frozen=True):
    """A NodeList (core v1), in part: the answer to a list of Nodes."""

    items: tuple[Node, ...] = ()


def explain_object(
    surface: str, kind: Explained, name: str, config: str, output: str, cluster: Mapping[str, Any]
) -> int:
    """Print what an object waits for. `surface`: the surface of its kind; empty for Nodes."""
    endpoint = home_endpoint(cluster, config)
    namespace = endpoint.namespace if kind.is_namespaced else ""
    try:
        setup = setup_of(config, endpoint, is_lenient=True)
        setup, kernel, node, operator = run_command(_one_picture(setup, surface, name, endpoint))
    except Unauthorized as error:
        raise click.ClickException(str(error)) from None
    except ApiError as error:
        raise click.ClickException(f"{endpoint.server} does not list its nodes: {error}") from None
    except KubeError as error:
        raise click.ClickException(f"nodes cannot be listed: {error}") from None
    except TimeoutError:
        raise click.ClickException(f"{endpoint.server} did not list its nodes within {LIST_WITHIN:g} s") from None
    now = datetime.now(UTC)
    if surface:
        declaration = next(each.declaration for each in setup.enabled if each.declaration.name == surface)
        key = Key("", kind.kind, namespace, name)
        found = explain_listed(kernel, declaration, kind, key, now, setup.enabled)
    else:
        found = explain(kernel, setup.enabled, node_key(name), now)
    if found is None:
        table = kernel.store.table("", kind.kind)
        if table.listing is Listing.UNREADABLE:
            raise click.ClickException(f"{kind.kind}s cannot be read: {table.why or 'no answer'}")
        word = "node" if kind is NODE else kind.kind
        raise click.ClickException(f"there is no {word} named {name}")
    found = msgspec.structs.replace(
        found, settings=setup.origin, incomplete=(*setup.unread, *found.incomplete), operator=operator
    )
    if node.get("spec", {}).get("unschedulable") and not found.cordon:
        found = msgspec.structs.replace(found, cordon=cordon_text(node, now))
    if output == "json":
        click.echo(as_json(explanation_document(found)))
    else:
        echo(as_text(found, now))
    return 1 if setup.is_broken else operator.exit_code


async def _one_picture(
    setup: Setup, surface: str, name: str, endpoint: Endpoint
) -> tuple[Setup, Kernel, dict[str, Any], OperatorState]:
    """Return the setup with the surfaces that matter, the settled kernel, the Node as JSON if one is explained, and whether
    an operator leads.

    `surface`: the surface of the object's kind; empty for a Node.
    """
    transport = HttpTransport(endpoint, SystemClock())
    try:
        # One plain request first: a reflector would retry a failure without an error.
        query = {"limit": "1", **({} if surface else {"fieldSelector": f"metadata.name={name}"})}
        reply = await transport.request("GET", RESOURCES["Node"].path, query=query)
        operator = await operator_state(setup, transport, SystemClock().now, others=(surface,) if surface else ())
        if surface:
            setup = setup.with_surface(surface)
            return setup, await picture(setup, transport), {}, operator
        whole: dict[str, Any] = next(iter(msgspec.json.decode(reply.body).get("items") or ()), {})
        nodes = msgspec.json.decode(reply.body, type=NodeList).items
        labels = nodes[0].metadata.labels if nodes else {}
        # If surfaces share budgets, a surface may block this node by what it does to another node.
        setup = await narrow_to_node(setup, transport, None if setup.together else name)
        return setup, await picture(setup, transport, labels), whole, operator
    finally:
        await transport.close()


class _Items(msgspec.Struct, frozen=True):
    """A list of objects of any kind, which are not decoded."""

    items: tuple[msgspec.Raw, ...] = ()


async def narrow_to_node(setup: Setup, transport: Transport, node: str | None = None) -> Setup:
    """Leave out surfaces without an object about the node, so that pods and budgets need not be read for them.

    A surface whose object has vanished stays, because its marks are still on the node.
    `node` None: a surface stays if it has an object about any node, or marks on any.
    """
    idle = [
        each.declaration.name
        for each in setup.enabled
        if each.declaration.node_objects is not None
        and not await _has_objects(each.declaration, each.declaration.node_objects, transport, node)
    ]
    absent = (
        [] if setup.together else [each.declaration.name for each in setup.enabled if await _is_absent(each, transport)]
    )
    left_out = {*idle, *absent}
    return setup.without(*left_out.difference(await _marking(left_out, transport, node)) if left_out else ())


async def _marking(names: Collection[str], transport: Transport, node: str | None) -> frozenset[str]:
    """Return those of the surfaces that show a sign on the node, or on any node if none is named."""
    query = {} if node is None else {"fieldSelector": f"metadata.name={node}"}
    found = await read_list(transport, RESOURCES["Node"].path, Node, query)
    signs = {name: surface(name).signs for name in names}
    return frozenset(name for name, own in signs.items() if any(_shows(own, each) for each in found))


def _shows(signs: Iterable[NodeSign], node: Node) -> bool:
    metadata, taints = node.metadata, (taint.key for taint in node.spec.taints)
    return shows_sign(signs, metadata.labels, taints, metadata.annotations)


async def _is_absent(enabled: Enabled, transport: Transport) -> bool:
    """Whether a surface has nothing to do here: its own kinds are not served, or have no object."""
    declaration = enabled.declaration
    brings = surface(declaration.name).crds
    own = [kind for kind in declaration.kinds if kind.plural in brings and kind.kind in declaration.explains]
    return bool(own) and not any([await _exists(kind, transport) for kind in own])


async def has_objects(resource: Resource, transport: Transport) -> bool:
    """Whether it is known that there is an object of a kind. It is False if we may not read the kind."""
    try:
        reply = await transport.request("GET", resource.path, query={"limit": "1"})
    except ApiError:
        return False
    return bool(msgspec.json.decode(reply.body, type=_Items).items)


async def _exists(resource: Resource, transport: Transport) -> bool:
    """Whether there is an object of a kind. It is True if we may not read the kind, because there may be one."""
    try:
        reply = await transport.request("GET", resource.path, query={"limit": "1"})
    except NotFound:
        return False
    except ApiError:
        return await _is_served(resource.api_version, transport)
    return bool(msgspec.json.decode(reply.body, type=_Items).items)


async def _has_objects(declaration: Declaration, objects: NodeObjects, transport: Transport, node: str | None) -> bool:
    """Whether an object is about the node. It is True if we may not read the kind: the surface then reports that."""
    resource = next(kind for kind in declaration.kinds if kind.kind == objects.kind)
    try:
        found = await read_list(transport, resource.path, resource.model)
    except NotFound:
        return False
    except ApiError:
        return await _is_served(resource.api_version, transport)
    projector = Projector(resource, "", Keep())
    return any(node in (None, objects.node(projector.row(item))) for item in found)


async def _is_served(api_version: str, transport: Transport) -> bool:
    """Whether the server serves the API. Every user may ask for that, also one who may not list the kind."""
    try:
        await transport.request("GET", f"/apis/{api_version}")
    except NotFound:
        return False
    except ApiError:
        return True
    return True


async def picture(setup: Setup, transport: Transport, labels: Mapping[str, str] | None = None) -> Kernel:
    """List everything that the decisions read, once, and run them until their claims and grants settle.

    The kernel's requests are not sent: a pod that would be evicted counts as being evicted.
    `labels`: the labels of the one node that is explained. A surface's other kinds, such as pods, are listed only if
    these labels show that it may empty that node.
    """
    assembly = assemble(setup.enabled, together=setup.together, quorum=await is_quorum_kept(setup, transport))
    kernel = assembly.kernel
    wanted = [source for each in assembly.enabled for source in _needed(each, labels)]
    with quiet():
        await _list(assembly, merge_sources((NODES, *wanted)), transport)
    await know(setup, kernel.store, transport)
    await know_leases(setup, kernel.store, transport)
    await know_guard(kernel.store, transport)
    settle(kernel, SystemClock().now())
    return kernel


def _needed(enabled: Enabled, labels: Mapping[str, str] | None) -> Iterator[Source]:
    empties = enabled.declaration.empties
    all_kinds = empties is None or labels is None or empties(labels)
    return (source for source in enabled.sources if all_kinds or source.kind == "Node")


async def is_quorum_kept(setup: Setup, transport: Transport) -> bool:
    """Whether the operator lets etcd keep its quorum: on OpenShift, or where a setting asks for it.

    It does so if surfaces run together of which one claims nodes.
    """
    claims = any(each.declaration.claims for each in setup.enabled)
    return setup.together and claims and (setup.quorum or await may_be_openshift(transport))


async def know(setup: Setup, store: Store, transport: Transport) -> None:
    """Write the facts that are known without asking other systems than the API server into the store."""
    knowing = [each.declaration.facts for each in setup.enabled if each.declaration.facts is not None]
    version = await _version(transport) if knowing else ServerVersion()
    for facts in knowing:
        for fact in facts(store, version):
            store.write(fact)


async def know_guard(store: Store, transport: Transport) -> None:
    """Write into the store whether admission guards overrides, if an object has one."""
    rows = (row for kind in sorted(GUARDED) for row in store.rows("", kind))
    if not any(isinstance(row, ObjectRow) and OVERRIDE in row.annotations for row in rows):
        return
    found = await override_guard(transport)
    is_known = not isinstance(found, str)
    store.write(Value(key=GUARD.key, value=found if is_known else None, state="fresh" if is_known else "unknown"))


async def _version(transport: Transport) -> ServerVersion:
    try:
        reply = await transport.request("GET", "/version")
        return ServerVersion(msgspec.json.decode(reply.body, type=_Version).git_version)
    except (KubeError, msgspec.DecodeError) as error:
        return ServerVersion(error=str(error))


async def know_leases(setup: Setup, store: Store, transport: Transport, *, is_first: bool = True) -> None:
    """Write into the store whether the operator holds the Lease of each surface's original.

    It does if the holder of the operator's own Lease holds it, too. A Lease that cannot be read counts as not held, as
    it does for the operator. `is_first`: print a note about such a Lease.
    """
    names = {each.declaration.surface: each.declaration.lease for each in setup.enabled if each.leased}
    leader = await _holder(*setup.leader, transport, is_first=is_first) if names else ""
    for owner, namespace in setup.leases:
        if owner in names:
            holder = await _holder(namespace, names[owner], transport, is_first=is_first) if leader else ""
            missing = "" if holder or not await is_namespace_missing(namespace, transport) else namespace
            store.write(lease_row(owner, held=bool(leader) and holder == leader, missing_namespace=missing))


async def _holder(namespace: str, name: str, transport: Transport, *, is_first: bool) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    try:
        reply = await transport.request("GET", path)
    except NotFound:
        return ""
    except ApiError as error:
        if is_first:
            click.echo(f"Lease {namespace}/{name} cannot be read and counts as not held: {error}", err=True)
        return ""
    return msgspec.json.decode(reply.body, type=Lease).spec.holder_identity or ""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Switch the log of the runtime off. Why a kind cannot be read is in the reasons of the decision that needs it."""
    log = logging.getLogger("haulout.runtime")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


async def _list(assembly: Assembly, wanted: frozenset[Source], transport: Transport) -> None:
    store, changed = assembly.kernel.store, asyncio.Event()
    pump = Pump(store, SystemClock(), Metrics(), changed.set, Kinds(assembly.kinds))
    async with asyncio.timeout(LIST_WITHIN), asyncio.TaskGroup() as group:
        for source in sorted(wanted, key=lambda source: source.kind):
            pump.open(group, transport, "", source.kind, source.keep)
        while any(store.table("", source.kind).listing is Listing.WAITING for source in wanted):
            changed.clear()
            await changed.wait()
        pump.close_all()
