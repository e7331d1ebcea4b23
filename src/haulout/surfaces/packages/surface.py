"""The packages surface as the kernel takes it: its decisions, their sources and the kinds of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import Keep, within
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG, View
from haulout.core.action import Delete, Step
from haulout.core.decision import Decider, Source
from haulout.core.declaration import Declaration
from haulout.core.drain.options import POD_ANNOTATION
from haulout.core.expiry import EXPIRES, expiring
from haulout.core.holds import PRIORITY_ANNOTATION
from haulout.surfaces.packages import planned
from haulout.surfaces.packages.declare import LEASE
from haulout.surfaces.packages.events import event
from haulout.surfaces.packages.groups import GROUPS, Group
from haulout.surfaces.packages.installed import versions_on
from haulout.surfaces.packages.logbook import LOGBOOK
from haulout.surfaces.packages.node.decide import decide as decide_node
from haulout.surfaces.packages.options import Options, make_options
from haulout.surfaces.packages.pods.config_maps import (
    KEPT_ANNOTATIONS,
    METADATA_RESOURCE,
    NODE_METADATA,
    PACKAGE_CONFIG,
    PACKAGE_CONFIG_RESOURCE,
)
from haulout.surfaces.packages.pods.foreign_rows import FOREIGN_POD, FOREIGN_POD_RESOURCE
from haulout.surfaces.packages.pods.jobs import JOB_RESOURCE, PACKAGE_JOB
from haulout.surfaces.packages.pods.rows import PACKAGE_POD, POD_RESOURCE
from haulout.surfaces.packages.pods.unlabelled import UNLABELLED_RESOURCES
from haulout.surfaces.packages.present import rollout_of
from haulout.surfaces.packages.skyhook import claims
from haulout.surfaces.packages.skyhook.applied import APPLIED, APPLIED_RESOURCE
from haulout.surfaces.packages.skyhook.decide import decide as decide_skyhook
from haulout.surfaces.packages.skyhook.hearing import INTENT_DECISIONS, NODE_DECISION
from haulout.surfaces.packages.skyhook.intent import decide as decide_intent
from haulout.surfaces.packages.wire import (
    DISABLE,
    LEADS,
    LEFT_ALONE,
    MIRRORED_FROM,
    MIRRORED_GENERATION,
    NAME,
    PAUSE,
    RESOURCES,
    STAMP,
    SURFACE,
    SkyhookRow,
)
from haulout.surfaces.packages.wire_policy import POLICY_KINDS, POLICY_RESOURCES


def _nodes(key: Key, store: Store) -> Iterable[Key]:
    row = store.row(key)
    return tuple(map(node_key, row.status.node_priority)) if isinstance(row, SkyhookRow) else ()


def _none(key: Key, store: Store) -> Iterable[Key]:
    return ()


def _pickers(key: Key, store: Store) -> Iterator[Key]:
    """Yield a Node, and the objects that have picked it, whose claims on it may not be known as begun yet."""
    yield key
    for kind in claims.ROLLOUTS:
        for row in store.rows("", kind):
            if isinstance(row, SkyhookRow) and key.name in row.status.node_priority:
                yield row.key


def _is_served_with_others(view: View) -> bool:
    setting = view.config(SURFACE)
    return setting is not None and isinstance(setting.value, Options) and not setting.value.alone


def _end(row: SkyhookRow, text: str) -> Step:
    """Return the step that deletes an expired Skyhook or NodeWright."""
    return Delete(row.key, row.uid), event(row.key, "Expired", text)


# A node is edited at the beginning and at the end of each stage of each package, which needs a high rate limit.
NODE_EDITS = 100
# The phases order the decisions: nodes read current intents, and the rollout reads current nodes.
DECIDERS = (
    *(
        Decider(name, group.kind, decide_intent, phase=-2, nodes=_none, within=SURFACE)
        for name, group in zip(INTENT_DECISIONS, GROUPS, strict=True)
    ),
    Decider(
        NODE_DECISION,
        "Node",
        decide_node,
        phase=-1,
        nodes=_none,
        within=SURFACE,
        edits=NODE_EDITS,
        touches=_pickers,
    ),
    *(
        Decider(name, kind, expiring(decide_skyhook, _end, _is_served_with_others), nodes=_nodes, within=SURFACE)
        for kind, name in claims.ROLLOUTS.items()
    ),
)
OWN_KINDS = (
    *RESOURCES,
    *POLICY_RESOURCES,
    POD_RESOURCE,
    JOB_RESOURCE,
    *UNLABELLED_RESOURCES,
    FOREIGN_POD_RESOURCE,
    PACKAGE_CONFIG_RESOURCE,
    METADATA_RESOURCE,
    APPLIED_RESOURCE,
)
CONFIG_KEY = Key("", CONFIG, "", SURFACE)


def _kept_annotations(group: Group) -> frozenset[str]:
    own = (group.named(name) for name in (PAUSE, DISABLE, STAMP))
    return frozenset({*own, LEADS, LEFT_ALONE, MIRRORED_FROM, MIRRORED_GENERATION, PRIORITY_ANNOTATION, EXPIRES})


def sources(options: Options) -> frozenset[Source]:
    return frozenset(
        {
            *(Source("", group.kind, Keep(_kept_annotations(group))) for group in GROUPS),
            *(Source("", kind) for kind in POLICY_KINDS),
            Source("", "Node", Keep(all_annotations=True)),
            Source("", "Pod", Keep(frozenset({POD_ANNOTATION}))),
            Source("", within(PACKAGE_POD, options.namespace)),
            *((Source("", FOREIGN_POD),) if options.alone else ()),
            Source("", within(PACKAGE_JOB, options.namespace)),
            *(Source("", within(each.kind, options.namespace)) for each in UNLABELLED_RESOURCES),
            Source("", within(PACKAGE_CONFIG, options.namespace), Keep(KEPT_ANNOTATIONS)),
            Source("", within(NODE_METADATA, options.namespace)),
            Source("", within(APPLIED, options.namespace)),
            Source("", "PodDisruptionBudget"),
            Source("", "DaemonSet"),
        }
    )


def _rows(options: Options) -> Iterable[Value]:
    yield Value(key=CONFIG_KEY, value=options)


PACKAGES = Declaration(
    name=SURFACE,
    deciders=DECIDERS,
    logbook=LOGBOOK,
    sources=lambda options: sources(options or Options()),
    options=make_options,
    rows=_rows,
    kinds=OWN_KINDS,
    records=tuple(f"{group.prefix}*" for group in GROUPS),
    working_pods=NAME,
    drains=True,
    controllers=dict.fromkeys((decider.name for decider in DECIDERS), SURFACE),
    lease=LEASE,
    explains={**claims.ROLLOUTS, "Node": NODE_DECISION},
    rollouts=dict.fromkeys(claims.ROLLOUTS, rollout_of),
    node_state=planned.node_state,
    versions=versions_on,
    planned_runs=planned.pod_runs,
    planned_object=planned.entering,
)
