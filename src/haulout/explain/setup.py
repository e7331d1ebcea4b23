"""Which surfaces `explain`, `plan` and `bundle` ask, and with which options: read from the operator's configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from haulout.base import yaml
from haulout.core.declaration import Context, Declaration, Enabled, OptionsProblem
from haulout.core.setting import made
from haulout.core.surface import Surface
from haulout.plugins.load import PluginProblem
from haulout.settings.context import context_of
from haulout.settings.file import SettingsProblem, read_settings
from haulout.settings.lint import kind_of
from haulout.surfaces.registry import load, served, surface, surfaces


class Setup(msgspec.Struct, frozen=True):
    """The surfaces and settings for which decisions are run.

    `together`: the surfaces run in one process, take turns and obey budgets.
    `apart`: the options of surfaces that are explained by a way of their own, by their names.
    `leases`: surfaces that act only while the Lease of their original is held, with its namespace.
    `leader`: namespace and name of the operator's own Lease. Empty: it elects no leader.
    """

    enabled: tuple[Enabled, ...] = ()
    together: bool = False
    apart: Mapping[str, Any] = {}
    leases: tuple[tuple[str, str], ...] = ()
    leader: tuple[str, str] = ("", "")

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


def read_setup(given: str, surfaces: str = "") -> Setup:
    """Read what to ask from the named file, or from ./haulout.yaml, or from the files of a drop-in beside it.

    `surfaces`: those to take instead of the ones that haulout.yaml switches on.
    """
    path = Path(given or "haulout.yaml")
    if not given and not path.exists():
        return _setup(_drop_ins(None), Context(alone=True, environment=os.environ))
    data = content_of(path)
    if given and not _is_settings(data):
        return _setup(_drop_ins(path), Context(alone=True, environment=os.environ))
    try:
        settings = read_settings(data, str(path), os.environ, {}, surfaces)
    except SettingsProblem as problem:
        raise click.ClickException(str(problem)) from None
    context = msgspec.structs.replace(context_of(settings), environment=os.environ)
    leases = tuple(settings.surface_leases.items())
    leader = (settings.lease.namespace or settings.lease.outside, settings.lease.name) if settings.lease else ("", "")
    setup = _setup(settings.blocks, context, leases)
    return msgspec.structs.replace(setup, together=True, leader=leader)


def _setup(blocks: Mapping[str, Any], context: Context, leases: tuple[tuple[str, str], ...] = ()) -> Setup:
    """Return the surfaces that the blocks switch on. Those that are explained by themselves are set apart."""
    enabled, apart = [], {}
    for each in served(blocks):
        block = getattr(blocks[each.within], each.name) if each.within else blocks[each.name]
        declaration = declaration_of(each)
        options = _options(declaration, block, context)
        if any(kind.command for kind in each.explains):
            apart[each.name] = options
        else:
            enabled.append(Enabled(declaration, options, leased=declaration.surface in dict(leases)))
    return Setup(tuple(enabled), apart=apart, leases=leases)


def _options(declaration: Declaration, block: Any, context: Context) -> Any:
    files = {path: content_of(Path(path)) for path in declaration.files(block)}
    try:
        return declaration.options(block, msgspec.structs.replace(context, files=files))
    except (OptionsProblem, PluginProblem) as problem:
        raise click.ClickException(str(problem)) from None


def _drop_ins(given: Path | None) -> dict[str, Any]:
    """Return the blocks of the originals that may run here, whose flags are not known: their files say which do.

    `given`: the configuration file of one of them.
    """
    owner = _owner(given) if given else None
    found: dict[str, Any] = {}
    for each in surfaces():
        if each.original is None or each.settings is None or each.within:
            continue
        fields = dict(each.original.settings)
        if each.config_file is not None:
            config = str(given) if given and each is owner else str(getattr(made(each.settings, fields), "config", ""))
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
