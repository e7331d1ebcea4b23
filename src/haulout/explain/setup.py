"""Finds the surfaces and settings of the operator, so that `explain`, `status`, `plan` and `bundle` decide as it does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from haulout.base import yaml
from haulout.base.clock import SystemClock
from haulout.cluster.project import RESOURCES
from haulout.core.declaration import Context, Declaration, Enabled, OptionsProblem
from haulout.core.setting import make_struct
from haulout.core.surface import Surface
from haulout.explain.deployed import Deployed, ServedLease, find_deployed, served_surfaces
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ConnectionFailed, Forbidden, RequestTimeout
from haulout.kube.http import HttpTransport
from haulout.kube.transport import Transport
from haulout.plugins.load import PluginProblem
from haulout.runtime.interruption import run_command
from haulout.settings.context import context_of
from haulout.settings.file import SettingsProblem, names_surfaces, read_settings
from haulout.settings.lint import foreign_kind, kind_of, not_ours, right_for
from haulout.settings.settings import Settings
from haulout.surfaces.registry import block_of, enabled_surfaces, keeps_quorum, load, surface, surfaces

SETTINGS = "haulout.yaml"
NO_SETTINGS = "none was found; the originals' defaults are assumed"
DEFAULTS = f"the defaults of `haulout run --surfaces`; there is no {SETTINGS} here"


class Setup(msgspec.Struct, frozen=True):
    """The surfaces of an operator, with their settings, for a command that runs their decisions.

    `enabled`: the surfaces whose decisions run.
    `together`: the surfaces run in one process, take turns and obey budgets.
    `apart`: the options of surfaces whose objects are not about nodes of this cluster, by surface.
    `leases`: surfaces that act only while the Lease of their original is held, each with the Lease's namespace.
    `quorum`: a setting asks for etcd to keep its quorum.
    `leader`: namespace and name of the operator's own Lease. Empty: it elects no leader.
    `deployment`: namespace and name of the Deployment that the settings were read from; empty if there is none.
    `origin`: where the settings come from, in words. `unread`: which of the operator's settings could not be read.
    `is_broken`: the settings are invalid, and those of this setup are assumed. `unread` has the errors.
    """

    enabled: tuple[Enabled, ...] = ()
    together: bool = False
    apart: Mapping[str, Any] = {}
    leases: tuple[tuple[str, str], ...] = ()
    quorum: bool = False
    leader: tuple[str, str] = ("", "")
    deployment: tuple[str, str] = ("", "")
    origin: str = ""
    unread: tuple[str, ...] = ()
    is_broken: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all surfaces that the operator serves, also of those in `apart`."""
        return tuple(sorted({*(each.declaration.surface for each in self.enabled), *self.apart}))

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of the deciders that decide about nodes."""
        declared = (each.declaration.explains for each in self.enabled)
        return tuple(explains["Node"] for explains in declared if "Node" in explains)

    def options(self, name: str) -> Any:
        """Return the options of a surface, or None if it is not part of this setup."""
        found = {each.declaration.name: each.options for each in self.enabled}
        return found.get(name, self.apart.get(name))

    def without(self, *names: str) -> Setup:
        """Return this setup without the decisions of these surfaces."""
        kept = tuple(each for each in self.enabled if each.declaration.name not in names)
        return msgspec.structs.replace(self, enabled=kept)

    def with_options(self, name: str, options: Any) -> Setup:
        """Return this setup with the surface enabled and with these options."""
        leased = name in dict(self.leases)
        mine = Enabled(declaration_of(surface(name)), options, leased=leased)
        return msgspec.structs.replace(self, enabled=(*self.without(name).enabled, mine))

    def with_surface(self, name: str) -> Setup:
        """Return this setup with the surface in it. If it was not, it gets its default settings."""
        if self.options(name) is not None:
            return self
        declared = surface(name)
        assert declared.settings is not None
        return self.with_options(name, declaration_of(declared).options(declared.settings(), Context(alone=True)))


def declaration_of(declared: Surface) -> Declaration:
    """Import and return the declaration of a surface's decisions."""
    found: Declaration = load(declared.decisions)
    return found


# Returns the content of a configuration file: one of this computer, or one that the operator's Deployment mounts.
Reader = Callable[[str], bytes]


def setup_of(config: str, endpoint: Endpoint, surfaces: str = "", *, is_lenient: bool = False) -> Setup:
    """Return the operator's settings: from the named file, else from its Deployment, else from the files in this folder.

    `is_lenient`: if they are invalid, return the defaults of the surfaces that the operator serves, and the errors.
    """
    if config:
        return read_setup(config, surfaces)
    return run_command(setup_at(endpoint, surfaces, is_lenient=is_lenient))


async def setup_at(endpoint: Endpoint, surfaces: str = "", *, is_lenient: bool = False) -> Setup:
    """Return the settings of the operator in a cluster, as `setup_of` does without a file. Raises `KubeError`."""
    find = find_lenient_setup if is_lenient else find_setup
    transport = HttpTransport(endpoint, SystemClock())
    try:
        # Every command needs nodes. They are requested first, so that an unreachable cluster is reported once.
        await transport.request("GET", RESOURCES["Node"].path, query={"limit": "1"})
        return await find(transport, surfaces)
    except Forbidden:
        return await find(transport, surfaces)
    except (ConnectionFailed, RequestTimeout):
        # Raises for invalid settings in this folder, which are reported before an unreachable cluster.
        read_setup("", surfaces)
        raise
    finally:
        await transport.close()


async def find_setup(transport: Transport, surfaces: str = "") -> Setup:
    """Return the settings of the operator in the cluster. If none is found, those of the files in this folder."""
    search = await find_deployed(transport)
    found = search.found
    if found is not None and (found.config or (found.runs and names_surfaces(found.surfaces, found.environment))):
        return _deployed_setup(found, surfaces)
    setup = read_setup("", surfaces)
    if setup.origin == NO_SETTINGS and (lease := await served_surfaces(transport)) is not None:
        return _served_setup(lease)
    # Files in this folder count as the operator's. Without them, a failed search makes the answer incomplete.
    is_incomplete = search.unread and setup.origin in (NO_SETTINGS, DEFAULTS)
    return msgspec.structs.replace(setup, unread=(search.unread,)) if is_incomplete else setup


async def find_lenient_setup(transport: Transport, surfaces: str = "") -> Setup:
    """Return the settings of the operator in the cluster. If they are invalid, assume those that can be known."""
    try:
        return await find_setup(transport, surfaces)
    except click.ClickException as problem:
        # A running operator goes on with the last valid settings, and its Lease says which surfaces it serves.
        lease = await served_surfaces(transport)
        if lease is None:
            raise
        setup = _served_setup(lease)
        return msgspec.structs.replace(setup, unread=(problem.message, *setup.unread), is_broken=True)


def _served_setup(lease: ServedLease) -> Setup:
    """Return the default settings of the surfaces that the Lease of an operator names."""
    unread: list[str] = []
    settings = read_settings(b"", SETTINGS, {}, {}, ",".join(lease.surfaces))
    setup = _served(settings, context_of(settings), _local, "", unread.append)
    namespace, _, name = lease.lease.partition("/")
    origin = f"the defaults of the surfaces that Lease {lease.lease} names"
    return msgspec.structs.replace(setup, leader=(namespace, name), origin=origin, unread=tuple(unread))


def _deployed_setup(deployed: Deployed, surfaces: str) -> Setup:
    """Read the settings that a Deployment mounts.

    A surface whose own file cannot be used is left out and named in `Setup.unread`.
    """
    place = "/".join(deployed.place)
    unread: list[str] = []

    def read(path: str) -> bytes:
        if path not in deployed.files:
            raise click.ClickException(f"{path} of Deployment {place}: {deployed.why_missing(path)}")
        return deployed.files[path]

    try:
        data = read(deployed.config) if deployed.config else b""
        settings = read_settings(
            data, deployed.config or SETTINGS, deployed.environment, {}, surfaces or deployed.surfaces
        )
    except SettingsProblem as problem:
        raise click.ClickException(f"the settings of Deployment {place}: {problem}") from None
    context = msgspec.structs.replace(context_of(settings), environment=deployed.environment)
    setup = _served(settings, context, read, deployed.place[0], unread.append)
    return msgspec.structs.replace(setup, deployment=deployed.place, origin=f"Deployment {place}", unread=tuple(unread))


def read_setup(config: str, surfaces: str = "") -> Setup:
    """Read the setup from the named file, else from ./haulout.yaml, else from the files of originals in this folder.

    `surfaces`: surfaces to take instead of those that haulout.yaml switches on, with commas. Without a haulout.yaml they
    have their defaults, as under `haulout run --surfaces`.
    """
    path = Path(config or SETTINGS)
    is_there = bool(config) or path.exists()
    if not is_there and not names_surfaces(surfaces, os.environ):
        blocks = _drop_ins(None)
        setup = _setup(blocks, Context(alone=True, environment=os.environ))
        files = [str(file) for block in blocks.values() if (file := getattr(block, "config", ""))]
        return msgspec.structs.replace(setup, origin=", ".join(files) or NO_SETTINGS)
    data = content_of(path) if is_there else b""
    if foreign := foreign_kind(data):
        raise click.ClickException(f"{path}: {not_ours(foreign)} ({right_for(foreign)})")
    if config and not _is_settings(data):
        setup = _setup(_drop_ins(path), Context(alone=True, environment=os.environ))
        return msgspec.structs.replace(setup, origin=str(path))
    try:
        settings = read_settings(data, str(path), os.environ, {}, surfaces)
    except SettingsProblem as problem:
        raise click.ClickException(str(problem)) from None
    context = msgspec.structs.replace(context_of(settings), environment=os.environ)
    setup = _served(settings, context, _local, settings.lease.outside if settings.lease else "")
    return msgspec.structs.replace(setup, origin=str(path) if is_there else DEFAULTS)


def _served(
    settings: Settings, context: Context, read: Reader, home: str, on_problem: Callable[[str], None] | None = None
) -> Setup:
    """Return the setup of an operator with these settings.

    `home`: the namespace of its Lease if the settings name none. `on_problem`: see `_setup`.
    """
    lease = settings.lease
    setup = _setup(settings.blocks, context, tuple(settings.surface_leases.items()), read, on_problem)
    leader = (lease.namespace or home, lease.name) if lease else ("", "")
    return msgspec.structs.replace(setup, together=True, quorum=keeps_quorum(settings.blocks), leader=leader)


def _local(path: str) -> bytes:
    return content_of(Path(path))


def _setup(
    blocks: Mapping[str, Any],
    context: Context,
    leases: tuple[tuple[str, str], ...] = (),
    read: Reader = _local,
    on_problem: Callable[[str], None] | None = None,
) -> Setup:
    """Return the setup of the surfaces that the blocks switch on.

    A surface whose objects are not about nodes of this cluster, and have an `explain` of their own, is put into `apart`.
    `on_problem`: called with the reason why a surface is left out. Without it such a problem ends the command.
    """
    enabled, apart = [], {}
    for each in enabled_surfaces(blocks):
        declaration = declaration_of(each)
        block = block_of(blocks, each.name, each.within)
        try:
            options = _options(declaration, block, context, read)
        except click.ClickException as problem:
            if on_problem is None:
                raise
            on_problem(f"surface {each.name} is left out: {problem.message}")
            continue
        if declaration.node_objects is None and any(kind.command for kind in each.explains):
            apart[each.name] = options
        else:
            enabled.append(Enabled(declaration, options, leased=declaration.surface in dict(leases)))
    return Setup(tuple(enabled), apart=apart, leases=leases)


def _options(declaration: Declaration, block: Any, context: Context, read: Reader) -> Any:
    try:
        files = {path: read(path) for path in declaration.files(block)}
    except click.ClickException as problem:
        raise click.ClickException(f"{problem.message} (a file that surface {declaration.name} needs)") from None
    try:
        return declaration.options(block, msgspec.structs.replace(context, files=files))
    except (OptionsProblem, PluginProblem) as problem:
        raise click.ClickException(str(problem)) from None


def _drop_ins(file: Path | None) -> dict[str, Any]:
    """Return the settings of the originals that may run here, by surface.

    Their flags are not known. An original with a configuration file counts only if the file exists.
    `file`: the configuration file that the user has named.
    """
    owner = _owner(file) if file else None
    found: dict[str, Any] = {}
    for each in surfaces():
        if each.original is None or each.settings is None or each.within:
            continue
        fields = dict(each.original.settings)
        if each.config_file is not None:
            config = (
                str(file) if file and each is owner else str(getattr(make_struct(each.settings, fields), "config", ""))
            )
            if not Path(config).exists():
                continue
            fields |= {"config": config.removeprefix("./"), **dict(_within(each, Path(config)))}
        found[each.name] = make_struct(each.settings, fields)
    return found


def _owner(path: Path) -> Surface | None:
    """Return the surface that a configuration file belongs to, by its content and name."""
    kind = kind_of(content_of(path), path.name)
    return next((each for each in surfaces() if kind in each.lint), None)


def _within(outer: Surface, config: Path) -> Iterator[tuple[str, Any]]:
    """Yield the settings that switch on the surfaces within another one whose files lie beside its file."""
    for each in surfaces():
        for kind in each.lint if each.within == outer.name else ():
            beside = config.with_name(f"{kind.stem}.yaml")
            if beside.exists():
                yield f"{each.name}.enabled", True
                yield f"{each.name}.config", str(beside)


def content_of(path: Path) -> bytes:
    """Return the content of a file. If it cannot be read, end the command with the error."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None


def _is_settings(data: bytes) -> bool:
    """Whether the content is a haulout.yaml. It is False for malformed YAML, which the surface's reader reports."""
    try:
        tree = yaml.parse(data)
    except yaml.YamlError:
        return False
    return isinstance(tree, yaml.Mapping) and "surfaces" in tree.entries
