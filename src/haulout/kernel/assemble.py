"""Puts a kernel together from declared surfaces: the one place where decisions, drain engine and arbiter meet.

See decision 0045.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from haulout.base import selector
from haulout.cluster.project import Keep, Resource
from haulout.core import claimants
from haulout.core.arbiter import Rules, arbiter
from haulout.core.budgets.decisions import BUDGETS, BudgetOptions
from haulout.core.decision import Decider, Source
from haulout.core.declaration import Declaration, Enabled
from haulout.core.drain import working_pods
from haulout.core.drain.deciders import DRAIN_DECIDERS
from haulout.core.drain.working_pods import WorkingPods
from haulout.core.logbook.decisions import logbook_of
from haulout.core.logbook.options import NAME as LOGBOOK
from haulout.core.surface_lease import under_lease
from haulout.kernel.kernel import Kernel
from haulout.kernel.pauses import Pauses
from haulout.kernel.rooms import Subject
from haulout.kernel.wakes import Reports

Observe = Callable[[Decider], Decider]
OnFailure = Callable[[Subject, Exception], None]


class Assembly(msgspec.Struct, frozen=True):
    """A kernel with the surfaces that it serves. `kinds`: the kinds that they bring, beside those of Kubernetes."""

    kernel: Kernel
    enabled: tuple[Enabled, ...]
    kinds: tuple[Resource, ...]

    def sources(self) -> frozenset[Source]:
        """Return what has to be watched in the home cluster for the options that the surfaces were enabled with."""
        return merge_sources(source for each in self.enabled for source in each.sources)


def surfaces_of(declarations: Iterable[Declaration]) -> dict[str, str]:
    """Return the surface that each decision belongs to. Decisions of the kernel itself are not in it."""
    surfaces = (each for each in declarations if each is not BUDGETS and each.name != LOGBOOK)
    return {decider.name: each.surface for each in surfaces for decider in each.deciders}


def _unchanged(decider: Decider) -> Decider:
    return decider


def _unreported(subject: Subject, error: Exception) -> None: ...


def assemble(
    surfaces: Iterable[Enabled],
    *,
    together: bool,
    quorum: bool = False,
    turns: bool | None = None,
    keeps_ledger: bool | None = None,
    records: bool = False,
    reports: Reports | None = None,
    on_failure: OnFailure = _unreported,
    observe: Observe = _unchanged,
) -> Assembly:
    """Return a kernel that serves these surfaces, with the configuration rows of those whose options are known.

    `together`: the surfaces take turns on a node and obey NodeDisruptionBudgets, as under `haulout run`.
    `quorum`: surfaces that run together keep the quorum of etcd, too.
    `turns`: whether surfaces take turns, where that differs from `together`. A surface that orders the work of another
    one needs them off.
    `keeps_ledger`: whether cordons have a ledger, where that differs from `together`.
    `records`: the maintenances of the surfaces are recorded in the logbook.
    `observe`: wraps the decisions of surfaces, to count and time them.
    """
    served = tuple(surfaces)
    enabled = (
        *served,
        *((Enabled(BUDGETS, BudgetOptions(quorum)),) if together else ()),
        *((Enabled(logbook_of(each.declaration for each in served)),) if records else ()),
    )
    declared = [each.declaration for each in enabled]
    rules = Rules(
        surfaces=tuple(each.name for each in declared if each.claims),
        turns=together if turns is None else turns,
        budgets=together,
        within=tuple((each.name, each.within) for each in declared if each.within),
    )
    drains = DRAIN_DECIDERS if any(each.drains for each in declared) else ()
    own = [observe(decider) for each in enabled for decider in _deciders(each)]
    deciders = [*own, *drains, arbiter(rules)]
    kernel = Kernel(
        deciders,
        reports,
        on_failure,
        keeps_ledger=together if keeps_ledger is None else keeps_ledger,
        pauses=Pauses(deciders, [name for each in declared for name in each.records], is_obeyed=together),
    )
    for each in enabled:
        for row in each.rows:
            kernel.store.write(row)
    if together:
        kernel.store.write(working_pods.row_of(_working_pods(declared)))
        kernel.store.write(claimants.row_of(rules.surfaces))
    kinds = tuple(kind for each in declared for kind in each.kinds)
    return Assembly(kernel, enabled, kinds)


def _working_pods(declared: Iterable[Declaration]) -> Iterator[WorkingPods]:
    for each in declared:
        if each.working_pods:
            names = frozenset(decider.name for decider in each.deciders)
            yield WorkingPods(names, selector.parse(each.working_pods))


def _deciders(enabled: Enabled) -> Iterator[Decider]:
    declaration = enabled.declaration
    for decider in declaration.deciders:
        yield under_lease(decider, declaration.surface, declaration.lease) if enabled.leased else decider


def merge_sources(sources: Iterable[Source]) -> frozenset[Source]:
    """Return one source for each kind of the home cluster, which keeps what any of the given ones keeps."""
    kept: dict[str, Keep] = {}
    for source in sources:
        kept[source.kind] = kept.get(source.kind, Keep()) | source.keep
    return frozenset(Source("", kind, keep) for kind, keep in kept.items())
