"""Which surfaces `explain`, `status`, `plan` and `bundle` ask, and with which options: those of the operator."""

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
from haulout.core.setting import made
from haulout.core.surface import Surface
from haulout.explain.deployed import Deployed, find_deployed
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ConnectionFailed, Forbidden, RequestTimeout
from haulout.kube.http import HttpTransport
from haulout.kube.transport import Transport
from haulout.plugins.load import PluginProblem
from haulout.runtime.interruption import run_command
from haulout.settings.context import context_of
from haulout.settings.file import SettingsProblem, read_settings
from haulout.settings.lint import foreign_kind, kind_of, not_ours, right_for
from haulout.settings.settings import Settings
from haulout.surfaces.registry import load, served, surface, surfaces

NO_SETTINGS = "none was found; the originals' defaults are assumed"


class Setup(msgspec.Struct, frozen=True):
    """The surfaces and settings for which decisions are run.

    `together`: the surfaces run in one process, take turns and obey budgets.
    `apart`: the options of surfaces whose objects are not about nodes of this cluster, by their names.
    `leases`: surfaces that act only while the Lease of their original is held, with its namespace.
    `leader`: namespace and name of the operator's own Lease. Empty: it elects no leader.
    `origin`: where the settings come from, in words. `unread`: what of the operator's settings could not be read.
    """

    enabled: tuple[Enabled, ...] = ()
    together: bool = False
    apart: Mapping[str, Any] = {}
    leases: tuple[tuple[str, str], ...] = ()
    leader: tuple[str, str] = ("", "")
    origin: str = ""
    unread: tuple[str, ...] = ()

    @property
    def asked(self) -> tuple[str, ...]:
        """The decisions about nodes."""
        declared = (each.declaration.explains for each in self.enabled)
        return tuple(explains["Node"] for explains in declared if "Node" in explains)

    def options(self, name: str) -> Any:
        """Return the options of a surface, or None if it is not asked."""
        found = {each.declaration.name: each.options for each in self.enabled}
        return found.get(name, self.apart.get(name))

    def without(self, *names: str) -> Setup:
        """Return the same without the decisions of these surfaces."""
        kept = tuple(each for each in self.enabled if each.declaration.name not in names)
        return msgspec.structs.replace(self, enabled=kept)

    def with_options(self, name: str, options: Any) -> Setup:
        """Return the same with other options for a surface, which is asked then in any case."""
        leased = name in dict(self.leases)
        mine = Enabled(declaration_of(surface(name)), options, leased=leased)
        return msgspec.structs.replace(self, enabled=(*self.without(name).enabled, mine))

    def with_surface(self, name: str) -> Setup:
        """Return the same with a surface, under its default settings where it is not asked already."""
        if self.options(name) is not None:
            return self
        declared = surface(name)
        assert declared.settings is not None
        return self.with_options(name, declaration_of(declared).options(declared.settings(), Context(alone=True)))


def declaration_of(declared: Surface) -> Declaration:
    """Import the decisions of a surface."""
    found: Declaration = load(declared.decisions)
    return found


# How a configuration file is read: from this computer, or from what the operator's Deployment mounts.
Reader = Callable[[str], bytes]


def setup_of(config: str, endpoint: Endpoint, surfaces: str = "") -> Setup:
    """Return the operator's settings: from the named file, else from its Deployment, else from the files in this folder."""
    return read_setup(config, surfaces) if config else run_command(_found_at(endpoint, surfaces))


async def _found_at(endpoint: Endpoint, surfaces: str) -> Setup:
    transport = HttpTransport(endpoint, SystemClock())
    try:
        # What every command needs is requested first, so that an unreachable cluster is reported once, with its nodes.
        await transport.request("GET", RESOURCES["Node"].path, query={"limit": "1"})
        return await find_setup(transport, surfaces)
    except Forbidden:
        return await find_setup(transport, surfaces)
    except (ConnectionFailed, RequestTimeout):
        # Wrong settings are reported before an unreachable cluster.
        read_setup("", surfaces)
        raise
    finally:
        await transport.close()


async def find_setup(transport: Transport, surfaces: str = "") -> Setup:
    """Return the settings of the operator in the cluster, or those of the files in this folder where there is none."""
    search = await find_deployed(transport)
    if search.found is not None and search.found.config:
        return _deployed_setup(search.found, surfaces)
    setup = read_setup("", surfaces)
    # Files in this folder count as the operator's. Without them, a search that failed leaves the answer incomplete.
    is_incomplete = search.unread and setup.origin == NO_SETTINGS
    return msgspec.structs.replace(setup, unread=(search.unread,)) if is_incomplete else setup


def _deployed_setup(deployed: Deployed, surfaces: str) -> Setup:
    """Read the settings that a Deployment mounts.

    A surface whose own file cannot be used is left out, which the result says.
    """
    place = "/".join(deployed.place)
    unread: list[str] = []

    def read(path: str) -> bytes:
        if path not in deployed.files:
            raise click.ClickException(f"{path} of Deployment {place}: {deployed.why_missing(path)}")
        return deployed.files[path]

    try:
        data = read(deployed.config)
        settings = read_settings(data, deployed.config, deployed.environment, {}, surfaces or deployed.surfaces)
    except SettingsProblem as problem:
        raise click.ClickException(f"the settings of Deployment {place}: {problem}") from None
    context = msgspec.structs.replace(context_of(settings), environment=deployed.environment)
    setup = _served(settings, context, read, deployed.place[0], unread.append)
    return msgspec.structs.replace(setup, origin=f"Deployment {place}", unread=tuple(unread))


def read_setup(config: str, surfaces: str = "") -> Setup:
    """Read what to ask from the named file, or from ./haulout.yaml, or from the files of a drop-in beside it.

    `surfaces`: those to take instead of the ones that haulout.yaml switches on.
    """
    path = Path(config or "haulout.yaml")
    if not config and not path.exists():
        blocks = _drop_ins(None)
        setup = _setup(blocks, Context(alone=True, environment=os.environ))
        files = [str(file) for block in blocks.values() if (file := getattr(block, "config", ""))]
        return msgspec.structs.replace(setup, origin=", ".join(files) or NO_SETTINGS)
    data = content_of(path)
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
    return msgspec.structs.replace(setup, origin=str(path))


def _served(
    settings: Settings, context: Context, read: Reader, home: str, on_problem: Callable[[str], None] | None = None
) -> Setup:
    """Return what an operator with these settings serves. `home`: the namespace of its Lease where none is set."""
    lease = settings.lease
    setup = _setup(settings.blocks, context, tuple(settings.surface_leases.items()), read, on_problem)
    leader = (lease.namespace or home, lease.name) if lease else ("", "")
    return msgspec.structs.replace(setup, together=True, leader=leader)


def _local(path: str) -> bytes:
    return content_of(Path(path))


def _setup(
    blocks: Mapping[str, Any],
    context: Context,
    leases: tuple[tuple[str, str], ...] = (),
    read: Reader = _local,
    on_problem: Callable[[str], None] | None = None,
) -> Setup:
    """Return the surfaces that the blocks switch on. Those that are only explained by themselves are set apart.

    `on_problem`: takes why a surface is left out. Without it such a problem ends the command.
    """
    enabled, apart = [], {}
    for each in served(blocks):
        block = getattr(blocks[each.within], each.name) if each.within else blocks[each.name]
        declaration = declaration_of(each)
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
    files = {path: read(path) for path in declaration.files(block)}
    try:
        return declaration.options(block, msgspec.structs.replace(context, files=files))
    except (OptionsProblem, PluginProblem) as problem:
        raise click.ClickException(str(problem)) from None


def _drop_ins(file: Path | None) -> dict[str, Any]:
    """Return the blocks of the originals that may run here, whose flags are not known: their files say which do.

    `file`: the configuration file of one of them.
    """
    owner = _owner(file) if file else None
    found: dict[str, Any] = {}
    for each in surfaces():
        if each.original is None or each.settings is None or each.within:
            continue
        fields = dict(each.original.settings)
        if each.config_file is not None:
            config = str(file) if file and each is owner else str(getattr(made(each.settings, fields), "config", ""))
            if not Path(config).exists():
                continue
            fields |= {"config": config.removeprefix("./"), **dict(_within(each, Path(config)))}
        found[each.name] = made(each.settings, fields)
    return found


def _owner(path: Path) -> Surface | None:
    """Return the surface whose configuration file it is."""
    kind = kind_of(content_of(path), path.name)
    return next((each for each in surfaces() if kind in each.lint), None)


def _within(outer: Surface, config: Path) -> Iterator[tuple[str, Any]]:
    """Yield the settings of the surfaces within another, whose files lie beside its own."""
    for each in surfaces():
        for kind in each.lint if each.within == outer.name else ():
            beside = config.with_name(f"{kind.stem}.yaml")
            if beside.exists():
                yield f"{each.name}.enabled", True
                yield f"{each.name}.config", str(beside)


def content_of(path: Path) -> bytes:
    """Return the content of a file, or end the command with what is wrong with it."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None


def _is_settings(data: bytes) -> bool:
    """Whether it is a haulout.yaml. What is no YAML at all is for the surface's own reader to complain about."""
    try:
        tree = yaml.parse(data)
    except yaml.YamlError:
        return False
    return isinstance(tree, yaml.Mapping) and "surfaces" in tree.entries
