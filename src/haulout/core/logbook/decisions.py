"""The decisions of the logbook, declared like those of a surface. They claim no node, and nothing waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from haulout.cluster.key import Key
from haulout.cluster.project import Keep
from haulout.cluster.rows import Row, Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG
from haulout.core.cordon import CORDON_REASON
from haulout.core.decision import Decider, Source
from haulout.core.declaration import Declaration
from haulout.core.logbook import begin, close, retention
from haulout.core.logbook.notes import PART
from haulout.core.logbook.options import NAME, LogbookOptions
from haulout.core.logbook.wire import KIND, RECORDS, REQUEST_PROOF, REQUESTED_BY
from haulout.core.steering import OVERRIDE, OVERRIDE_BY, PAUSED, PAUSED_BY

# Records are decided about last, so that nothing waits for them. A record is closed before the decision about its node
# forgets what it has counted.
CLOSING, BEGINNING = 8, 9
KEPT = frozenset({REQUESTED_BY, REQUEST_PROOF, PAUSED, PAUSED_BY, OVERRIDE, OVERRIDE_BY, CORDON_REASON})


def _none(key: Key, store: Store) -> Iterable[Key]:
    """Return no node, so that a failure of the logbook keeps no surface from any node."""
    return ()


def logbook_of(declared: Iterable[Declaration]) -> Declaration:
    """Return the decisions of the logbook for these surfaces."""
    claiming = [each for each in declared if each.claims]
    logbooks = {decider.name: (each.name, each.logbook) for each in claiming for decider in each.deciders}
    kinds = frozenset(kind for each in claiming for kind in each.explains if kind != "Node")

    def sources(options: LogbookOptions | None) -> frozenset[Source]:
        owners = {Source("", kind, Keep(KEPT)) for kind in kinds}
        return frozenset({Source("", KIND, Keep(frozenset({PART}))), Source("", "Node", Keep(KEPT)), *owners})

    return Declaration(
        name=NAME,
        deciders=(
            Decider(f"{NAME}-records", KIND, close.decide_with(logbooks), phase=CLOSING, nodes=_none),
            Decider(NAME, "Node", begin.decide_with(logbooks), phase=BEGINNING, nodes=_none),
            Decider(f"{NAME}-retention", CONFIG, retention.decide, phase=BEGINNING, nodes=_none),
        ),
        sources=sources,
        rows=_rows,
        kinds=(RECORDS,),
        claims=False,
        controllers={f"{NAME}-records": NAME, f"{NAME}-retention": NAME},
    )


def _rows(options: LogbookOptions) -> Iterator[Row]:
    yield Value(key=Key("", CONFIG, "", NAME), value=options)
