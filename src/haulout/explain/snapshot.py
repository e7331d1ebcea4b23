"""Takes one picture of a cluster, lets the decisions settle on it without acting, and prints what they say."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from haulout.base import yaml
from haulout.base.clock import SystemClock
from haulout.cluster.key import node_key
from haulout.cluster.kinds import Kinds
from haulout.cluster.project import RESOURCES
from haulout.cluster.store import Listing
from haulout.core.decision import Source
from haulout.core.declaration import Enabled
from haulout.core.surface_lease import lease_row
from haulout.explain.clouds import Clouds, clouds_beside, clouds_of, is_emptied, know
from haulout.explain.kinds import MAINTENANCE
from haulout.explain.node import as_json, as_text, explain, explain_maintenance
from haulout.kernel.assemble import Assembly, assemble, merged
from haulout.kernel.kernel import Kernel
from haulout.kernel.proofs import settle
from haulout.kube.config import load as load_endpoint
from haulout.kube.endpoint import Endpoint, impersonation
from haulout.kube.errors import ApiError, KubeError, NotFound, Unauthorized
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport
from haulout.model.lease import Lease
from haulout.model.node import Node
from haulout.plugins.config import ConfigProblem
from haulout.plugins.load import PluginProblem
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump
from haulout.settings.context import context_of
from haulout.settings.file import SettingsProblem, read_settings
from haulout.surfaces.clusterapi.options import Options as MachineOptions
from haulout.surfaces.clusterapi.options import served as machine_options
from haulout.surfaces.clusterapi.settings import ClusterApiSettings
from haulout.surfaces.esx.surface import ESX
from haulout.surfaces.kubernikus.surface import KUBERNIKUS
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.options import served as maintenance_options
from haulout.surfaces.nodemaintenance.settings import NodeMaintenanceSettings
from haulout.surfaces.nodemaintenance.surface import NODEMAINTENANCE
from haulout.surfaces.nodemaintenance.wire import RESOURCE as MAINTENANCES
from haulout.surfaces.nodemaintenance.wire import NodeMaintenance, maintenance_key
from haulout.surfaces.profiles.load import examined
from haulout.surfaces.profiles.passes.result import Config, Mode
from haulout.surfaces.profiles.settings import ProfilesSettings
from haulout.surfaces.profiles.surface import PROFILES, decided_upon, known_plugins
from haulout.surfaces.profiles.surface import Options as ProfileOptions

LIST_WITHIN = 60.0


class NodeList(msgspec.Struct, frozen=True):
    """A NodeList (core v1), in part: the answer to a list of Nodes."""

    items: tuple[Node, ...] = ()


class Setup(msgspec.Struct, frozen=True):
    """The surfaces and settings for which `explain` runs decisions.

    `together`: the surfaces run in one process, take turns and obey budgets.

    `pods`: those of nodes that are emptied for their machines are looked at.
    `leases`: surfaces that act only while the Lease of their original is held, with its namespace.
    `leader`: namespace and name of the operator's own Lease. Empty: it elects no leader.
    """

    profiles: Config | None = None
    maintenances: Options | None = None
    together: bool = False
    mode: Mode = Mode()
    machines: MachineOptions = MachineOptions()
    clouds: Clouds = Clouds()
    pods: bool = True
    leases: tuple[tuple[str, str], ...] = ()
    leader: tuple[str, str] = ("", "")

    @property
    def enabled(self) -> tuple[Enabled, ...]:
        """The surfaces whose decisions are asked, with their options."""
        found = [
            (PROFILES, ProfileOptions(self.profiles, self.mode) if self.profiles else None),
            (KUBERNIKUS, self.clouds.kubernikus),
            (ESX, self.clouds.esx),
            (NODEMAINTENANCE, self.maintenances),
        ]
        leased = dict(self.leases)
        return tuple(
            Enabled(declaration, options, leased=declaration.surface in leased)
            for declaration, options in found
            if options is not None
        )

    @property
    def asked(self) -> tuple[str, ...]:
        """The decisions about nodes."""
        declared = (each.declaration.explains for each in self.enabled)
        return tuple(explains["Node"] for explains in declared if "Node" in explains)


def explain_object(kind: str, name: str, config: str, output: str, cluster: Mapping[str, Any]) -> int:
    endpoint = endpoint_of(cluster)
    setup = read_setup(config)
    try:
        kernel = asyncio.run(_one_picture(setup, kind, name, endpoint))
    except Unauthorized as error:
        raise click.ClickException(str(error)) from None
    except ApiError as error:
        raise click.ClickException(f"{endpoint.server} does not list its nodes: {error}") from None
    except KubeError as error:
        raise click.ClickException(f"nodes cannot be listed: {error}") from None
    except TimeoutError:
        raise click.ClickException(f"{endpoint.server} did not list its nodes within {LIST_WITHIN:g} s") from None
    now = datetime.now(UTC)
    if kind == MAINTENANCE:
        found = explain_maintenance(kernel, maintenance_key(name), now)
    else:
        found = explain(kernel, setup.asked, node_key(name), now)
    if found is None:
        raise click.ClickException(f"there is no {'NodeMaintenance' if kind == MAINTENANCE else 'node'} named {name}")
    click.echo(as_json(found) if output == "json" else as_text(found, now))
    return 0


def read_setup(given: str, surfaces: str = "") -> Setup:
    """Read what to ask from the named file, or from ./haulout.yaml, or from the files of a drop-in beside it.

    `surfaces`: those to take instead of the ones that haulout.yaml switches on.
    """
    path = Path(given or "haulout.yaml")
    if not given and not path.exists():
        default = Path("config/maintenance.yaml")
        profiles = read_config(str(default)) if default.exists() else None
        return Setup(profiles, Options(), clouds=clouds_beside(default) if profiles else Clouds())
    data = _content(path)
    if given and not _is_settings(data):
        return Setup(read_config(given), Options(), clouds=clouds_beside(path))
    try:
        settings = read_settings(data, str(path), os.environ, {}, surfaces)
    except SettingsProblem as problem:
        raise click.ClickException(str(problem)) from None
    context = context_of(settings)
    block = settings.of(ProfilesSettings)
    profiles = read_config(block.config) if block else None
    mode = Mode(alone=False, rules=context.rules)
    wanted = settings.of(NodeMaintenanceSettings)
    maintenances = maintenance_options(wanted, context) if wanted else None
    machines = machine_options(settings.of(ClusterApiSettings) or ClusterApiSettings(), context)
    clouds = clouds_of(settings) if profiles else Clouds()
    leader = (settings.lease.namespace or settings.lease.outside, settings.lease.name) if settings.lease else ("", "")
    return Setup(
        profiles,
        maintenances,
        together=True,
        mode=mode,
        machines=machines,
        clouds=clouds,
        leases=tuple(settings.surface_leases.items()),
        leader=leader,
    )


def read_config(path: str) -> Config:
    """The configuration, or everything that is wrong with it."""
    data = _content(Path(path))
    try:
        plugins = known_plugins()
    except PluginProblem as problem:
        raise click.ClickException(str(problem)) from None
    config, found = examined(data, plugins, source=path, environment=os.environ)
    if isinstance(config, ConfigProblem):
        raise click.ClickException("\n".join(str(line) for line in found if line.is_error))
    return config


def endpoint_of(cluster: Mapping[str, Any]) -> Endpoint:
    """From the options that commands share."""
    try:
        return load_endpoint(
            path=cluster["kubeconfig"],
            context=cluster["context"],
            namespace=cluster["namespace"],
            impersonate=impersonation(cluster["as_user"], cluster["as_groups"]),
        )
    except KubeError as error:
        raise click.ClickException(str(error)) from None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None


def _is_settings(data: bytes) -> bool:
    """What is no YAML at all is for the profiles' own reader to complain about."""
    try:
        tree = yaml.parse(data)
    except yaml.YamlError:
        return False
    return isinstance(tree, yaml.Mapping) and "surfaces" in tree.entries


async def _one_picture(setup: Setup, kind: str, name: str, endpoint: Endpoint) -> Kernel:
    transport = HttpTransport(endpoint, SystemClock())
    try:
        # Request it once without a reflector, which would retry in silence: at a terminal a failure is an error.
        query = {"limit": "1", **({} if kind == MAINTENANCE else {"fieldSelector": f"metadata.name={name}"})}
        reply = await transport.request("GET", RESOURCES["Node"].path, query=query)
        if kind == MAINTENANCE:
            setup = msgspec.structs.replace(setup, maintenances=setup.maintenances or Options())
            return await picture(setup, transport)
        # Without a claim on the node, its pods are not needed, and all pods of a cluster take long to list.
        nodes = msgspec.json.decode(reply.body, type=NodeList).items
        setup = msgspec.structs.replace(setup, pods=any(is_emptied(node.metadata.labels) for node in nodes))
        if not await _is_maintained(name, transport):
            setup = msgspec.structs.replace(setup, maintenances=None)
        return await picture(setup, transport)
    finally:
        await transport.close()


async def _is_maintained(node: str, transport: Transport) -> bool:
    """Whether a NodeMaintenance names the node. Where they may not be read, one may: its surface then says so."""
    try:
        found = await read_list(transport, MAINTENANCES.path, NodeMaintenance)
    except NotFound:
        return False
    except ApiError:
        return await _is_served(MAINTENANCES.api_version, transport)
    return any(item.spec is not None and item.spec.node_name == node for item in found)


async def _is_served(api_version: str, transport: Transport) -> bool:
    """Whether the server knows the API. Everybody may ask that, and who may not list a kind is told no more than that."""
    try:
        await transport.request("GET", f"/apis/{api_version}")
    except NotFound:
        return False
    except ApiError:
        return True
    return True


async def picture(setup: Setup, transport: Transport) -> Kernel:
    """Everything that the decisions read, listed once, and their claims and grants worked out.

    Requests of the kernel are not sent: a pod that would be evicted counts as on its way.
    """
    assembly = assemble(setup.enabled, together=setup.together)
    kernel = assembly.kernel
    # All pods of a cluster are listed only where a surface wants something of this node.
    wanted = merged(
        source
        for each in assembly.enabled
        for source in each.sources
        if setup.pods or each.declaration not in (KUBERNIKUS, ESX) or source.kind == "Node"
    ) | merged(decided_upon(setup.profiles))
    with _quiet():
        await _list(assembly, merged(wanted), transport)
    await know(setup.clouds, kernel.store, transport)
    for surface, held in (await held_leases(setup, transport)).items():
        kernel.store.write(lease_row(surface, held=held))
    settle(kernel, SystemClock().now())
    return kernel


async def held_leases(setup: Setup, transport: Transport) -> dict[str, bool]:
    """Whether the operator holds the Lease of each surface's original: the same replica holds it and the operator's own.

    What cannot be read counts as not held, as it does for the operator.
    """
    names = {each.declaration.surface: each.declaration.lease for each in setup.enabled if each.leased}
    leader = await _holder(*setup.leader, transport) if names else ""
    return {
        surface: bool(leader) and await _holder(namespace, names[surface], transport) == leader
        for surface, namespace in setup.leases
        if surface in names
    }


async def _holder(namespace: str, name: str, transport: Transport) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    try:
        reply = await transport.request("GET", path)
    except NotFound:
        return ""
    except ApiError as error:
        click.echo(f"Lease {namespace}/{name} cannot be read, so that it counts as not held: {error}", err=True)
        return ""
    return msgspec.json.decode(reply.body, type=Lease).spec.holder_identity or ""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the log of the runtime quiet: the decision that needs a kind says why it cannot be read."""
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
