"""What the rest of Haulout has to know of a surface, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from haulout.cluster.project import Resource
from haulout.cluster.rows import Row
from haulout.core.decision import Decider, Source
from haulout.core.drain.options import PodRules


class Context(msgspec.Struct, frozen=True):
    """What the decisions of every surface are told beside its own settings.

    `alone`: the surface is served as its original, without any other.
    `rules`: what every drain does with certain pods.
    """

    alone: bool = False
    rules: PodRules = PodRules()


def _no_rows(options: Any) -> Iterable[Row]:
    return ()


def _itself(settings: Any, context: Context) -> Any:
    return settings


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """A surface: its decisions, the kinds that it brings, and how its options become sources and rows.

    `kinds`: kinds of its own, beside those of Kubernetes that every kernel knows.
    `sources`: what has to be watched in the home cluster for its decisions, under the given options.
    `options`: what its decisions read, made from its settings and the context. Surfaces with a file of their own read it.
    `rows`: the configuration rows that its decisions read, made from the options.
    `drains`: whether its decisions want nodes drained, so that the drain engine has to be there.
    `claims`: whether it ever claims a node. Grants wait until the claims of every such surface are known.
    `within`: the surface whose turn it shares, if it is not a surface of its own.
    `controllers`: the controller name under which a decision is counted, where that differs from the decision's name.
    `lease`: the name of the original's leader election Lease.
    `explains`: the kinds whose objects it can explain, each with the decision that gives the reasons.
    """

    name: str
    deciders: tuple[Decider, ...]
    sources: Callable[[Any], frozenset[Source]]
    options: Callable[[Any, Context], Any] = _itself
    rows: Callable[[Any], Iterable[Row]] = _no_rows
    kinds: tuple[Resource, ...] = ()
    drains: bool = False
    claims: bool = True
    within: str = ""
    controllers: Mapping[str, str] = {}
    lease: str = ""
    explains: Mapping[str, str] = {}

    @property
    def surface(self) -> str:
        return self.within or self.name


class Enabled(msgspec.Struct, frozen=True):
    """A surface that a kernel serves, with the options that its decisions read.

    `options` None: they are not known yet. The running process writes the rows when it has read them.
    `leased`: it acts only while the Lease of its original is held.
    """

    declaration: Declaration
    options: Any = None
    leased: bool = False

    @property
    def sources(self) -> frozenset[Source]:
        return self.declaration.sources(self.options)

    @property
    def rows(self) -> Iterable[Row]:
        return () if self.options is None else self.declaration.rows(self.options)
