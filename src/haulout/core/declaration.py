"""The declaration of a surface's decisions: what the rest of Haulout needs to run, explain and plan them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from haulout.cluster.project import Resource
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.store import Index, Store
from haulout.core.decision import Decider, Source
from haulout.core.drain.options import PodRules
from haulout.core.logbook.account import SurfaceLogbook
from haulout.core.planned import Json, PlannedObjects, PodRun, Schedule, as_new, no_runs, no_schedules, no_state
from haulout.core.reason import Reason

# What surfaces of other packages use. `Enabled` is for kernels.
__all__ = ["Context", "Declaration", "NodeObjects", "OptionsProblem", "Rollout", "ServerVersion"]


class Context(msgspec.Struct, frozen=True):
    """The inputs that the options of every surface are made from, beside its own settings.

    `alone`: the surface is served as its original, without any other.
    `rules`: what every drain does with certain pods.
    `files`: the content of the surface's own configuration files, by the paths in its settings.
    `environment`: the variables that such files may use.
    `is_running`: the options are for a running process, not for a command that explains or plans.
    `namespace`: the namespace of the process; empty if it is not known.
    """

    alone: bool = False
    rules: PodRules = PodRules()
    files: Mapping[str, bytes] = {}
    environment: Mapping[str, str] = {}
    is_running: bool = False
    namespace: str = ""


class OptionsProblem(Exception):
    """An error: a configuration file of a surface cannot be used.

    `lines`: everything that is wrong with it, with places. `error`: the first error, without its place.
    `is_syntax`: it is no YAML. `is_unreadable`: there is no content.
    """

    def __init__(
        self, lines: list[str], *, error: str = "", is_syntax: bool = False, is_unreadable: bool = False
    ) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.error = error or lines[0]
        self.is_syntax = is_syntax
        self.is_unreadable = is_unreadable


class NodeObjects(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of a surface's objects that are about nodes, as `explain` and `status` show them under a node.

    `index`: finds the objects of a node by its name. `node`: returns the name of the node that an object is about.
    `reason`: returns what an object is doing, from its row and the reasons of its decision.
    `left_behind`: returns what to say about a node that looks as if it had such an object, but has none.
    """

    kind: str
    index: Index
    node: Callable[[Any], str]
    reason: Callable[[Any, tuple[Reason, ...]], Reason]
    left_behind: Callable[[NodeRow], Reason | None] = lambda node: None


class Rollout(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The progress of an object that changes many nodes.

    `object`: its kind and name. `state`: the state in its own status.
    `total`, `done`, `at_work`: the nodes that it is about, that it has changed, and that it changes now.
    """

    surface: str
    object: str
    state: str
    total: int = 0
    done: int = 0
    at_work: int = 0


class ServerVersion(msgspec.Struct, frozen=True):
    """The version that the API server reports, or the error that it gives instead."""

    text: str = ""
    error: str = ""


def _no_rows(options: Any) -> Iterable[Row]:
    return ()


def _no_context_rows(context: Context) -> Iterable[Row]:
    return ()


def _no_files(settings: Any) -> tuple[str, ...]:
    return ()


def _itself(settings: Any, context: Context) -> Any:
    return settings


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions of a surface: the kinds that they bring, and how the surface's options become sources and rows.

    `kinds`: kinds of its own, beside those of Kubernetes that every kernel has.
    `sources`: what has to be watched in the home cluster for its decisions, under the given options.
    `options`: what its decisions read, made from its settings and the context.
    `files`: the paths of its own configuration files in its settings. `options` finds their content in the context.
    `rows`: the configuration rows that its decisions read, made from the options, such as `Value(key=Key("", CONFIG, "",
    name), value=options)` for `view.config(name)`. `explain`, `plan` and `status` write them once, the running
    process whenever settings or files change.
    `context_rows`: configuration rows that are there even while a file is invalid.
    `needs_files`: the process does not start while a file is missing or invalid.
    `keeps_last_options`: while a file is invalid, the last valid options stay in force. Otherwise the decisions find an
    error in their row, and do nothing.
    `drains`: its decisions want nodes drained, so that the kernel needs the drain engine.
    `working_pods`: a label selector of the pods by which it works on a node. No drain evicts them while it has the
    turn.
    `claims`: it may claim nodes. Grants wait until the claims of every such surface are known.
    `records`: the labels and annotations of Nodes in which it keeps what it knows, so that writing them disrupts nothing
    (`core.disruption`).
    `within`: the surface whose turn it shares, if it is not a surface of its own.
    `controllers`: the controller name under which a decision is counted, where that differs from the decision's name.
    `lease`: the name of the original's leader election Lease.
    `explains`: the kinds whose objects it can explain, each with the decision that gives the reasons.
    `node_objects`: its objects that are about nodes.
    `rollouts`: for its kinds that change many nodes, a function that returns the progress of an object, from its row and all
    others; None if another object shows the same.
    `versions`: the versions of what it has installed on a node, by name, from the annotations of the node.
    `tells_of_drains`: its reasons say which pods its drains wait for.
    `empties`: whether the labels of a node ask for it to be emptied. Only then are pods read to explain the node.
    `facts`: what can be known of the outside world from rows and the version alone, for explanations.
    `logbook`: how the logbook learns what its maintenances are about and how they end.
    `planned_objects`: its objects that a plan follows.
    `node_state`: returns the state that it writes on a Node, from the Node as the API has it.
    `planned_runs`: how long the pods that it makes run in a plan, from the times of earlier ones that nodes have noted.
    `planned_object`: an object of one of its kinds as it enters a plan, and what of it the plan cannot take into
    account.
    `planned_options`: the options for a plan, whose cluster cannot do everything that a real one can.
    `planned_schedules`: when it may begin something, from its options and the objects of the plan, for the chart.
    `planned_pods`: the running pods that end by themselves, as they enter a plan, each with the time that it still
    runs. Without it, a plan has no such pods.
    """

    name: str
    deciders: tuple[Decider, ...]
    sources: Callable[[Any], frozenset[Source]]
    options: Callable[[Any, Context], Any] = _itself
    files: Callable[[Any], tuple[str, ...]] = _no_files
    rows: Callable[[Any], Iterable[Row]] = _no_rows
    context_rows: Callable[[Context], Iterable[Row]] = _no_context_rows
    needs_files: bool = False
    keeps_last_options: bool = False
    kinds: tuple[Resource, ...] = ()
    drains: bool = False
    working_pods: str = ""
    claims: bool = True
    records: tuple[str, ...] = ()
    within: str = ""
    controllers: Mapping[str, str] = {}
    lease: str = ""
    explains: Mapping[str, str] = {}
    node_objects: NodeObjects | None = None
    rollouts: Mapping[str, Callable[[Any, Store], Rollout | None]] = {}
    versions: Callable[[Mapping[str, str]], Mapping[str, str]] | None = None
    tells_of_drains: bool = False
    empties: Callable[[Mapping[str, str]], bool] | None = None
    facts: Callable[[Store, ServerVersion], Iterable[Value]] | None = None
    logbook: SurfaceLogbook = SurfaceLogbook()
    planned_objects: PlannedObjects | None = None
    planned_options: Callable[[Any], Any] = lambda options: options
    planned_pods: Callable[[Any, Iterable[Json], datetime], Iterable[tuple[Json, timedelta]]] | None = None
    node_state: Callable[[Json], str] = no_state
    planned_runs: Callable[[Iterable[Json]], Callable[[Json], PodRun | None]] = no_runs
    planned_object: Callable[[str, Json], tuple[Json, str]] = as_new
    planned_schedules: Callable[[Any, Iterable[Json]], Iterable[Schedule]] = no_schedules

    @property
    def surface(self) -> str:
        return self.within or self.name


class Enabled(msgspec.Struct, frozen=True):
    """A surface that a kernel serves, with the options that its decisions read.

    `options` None: they are not known yet. The running process writes the rows once it has read them.
    `leased`: it acts only while this process holds the Lease of its original.
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
