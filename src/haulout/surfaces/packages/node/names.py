"""The names of annotations, labels and conditions on a Node that belong to one Skyhook."""

from __future__ import annotations

from haulout.surfaces.packages.pods.names import LONGEST_LABEL, safe_name
from haulout.surfaces.packages.wire import PREFIX

CORDON_PREFIX, NODE_STATE_PREFIX, STATUS_PREFIX = f"{PREFIX}cordon_", f"{PREFIX}nodeState_", f"{PREFIX}status_"
STAGE_TIMES_PREFIX = f"{PREFIX}stageTime_"


def node_state(skyhook: str) -> str:
    return f"{NODE_STATE_PREFIX}{skyhook}"


def status(skyhook: str) -> str:
    """Return the name of the annotation, and of the label, that show the node's status."""
    return f"{STATUS_PREFIX}{skyhook}"


def cordon(skyhook: str) -> str:
    return f"{CORDON_PREFIX}{skyhook}"


def cordon_before(skyhook: str) -> str:
    """Return the annotation that says that a person had cordoned the node before the Skyhook did."""
    return f"{PREFIX}cordonPre_{skyhook}"


def copy_dir(skyhook: str) -> str:
    return f"{PREFIX}copyDir_{skyhook}"


def resource_ids(skyhook: str) -> str:
    """Return the annotation with the identities of entries that were begun for another object of the unit."""
    return f"{PREFIX}resourceId_{skyhook}"


def last_error(skyhook: str) -> str:
    return f"{PREFIX}lastError_{skyhook}"


def stage_times(skyhook: str) -> str:
    """Return the annotation that notes how long the stages of packages took on the node."""
    return f"{STAGE_TIMES_PREFIX}{skyhook}"


def picked_annotation(skyhook: str) -> str:
    """Return the annotation with the time of the node's last pick.

    A rollback begins with the node that was picked last.
    """
    return f"{PREFIX}picked_{skyhook}"


def kept_config(skyhook: str) -> str:
    """Return the annotation with the digests of configurations that the node still has while new ones wait."""
    return f"{PREFIX}keptConf_{skyhook}"


def drain_start(skyhook: str) -> str:
    """Return the annotation with which NodeWright v0.20 notes when a drain began. Nothing here reads it.

    A later drain of that operator would take it for its own, and exceed its timeout at once. So it is removed.
    """
    return f"{PREFIX}drainStart_{skyhook}"


def drain_blocks(skyhook: str) -> str:
    """Return the annotation with which NodeWright v0.20 notes what a drain waits for. It is removed likewise."""
    return f"{PREFIX}drainBlocked_{skyhook}"


def version(skyhook: str) -> str:
    return f"{PREFIX}version_{skyhook}"


def auto_taint(taint_key: str) -> str:
    """Return the annotation that says that the operator tainted the node.

    The name of an annotation has at most one slash, and at most 63 characters after it.
    """
    name = f"autoTaint_{taint_key.replace('/', '_')}"
    if len(name) > LONGEST_LABEL:
        name = f"autoTaint_{safe_name(LONGEST_LABEL - len('autoTaint_'), taint_key.replace('/', '_'))}"
    return f"{PREFIX}{name}"


def not_ready(skyhook: str) -> str:
    """Return the type of the node condition that is true until the Skyhook is complete on the node."""
    return f"{PREFIX}{skyhook}/NotReady"


def erroring(skyhook: str) -> str:
    """Return the type of the node condition that is true while a package fails on the node."""
    return f"{PREFIX}{skyhook}/Erroring"


def all_of(skyhook: str) -> frozenset[str]:
    """Return every annotation that a Skyhook may leave on a node under its own name."""
    return frozenset(
        (node_state(skyhook), cordon(skyhook), cordon_before(skyhook), *released_annotations(skyhook, deleted=True))
    )


def released_annotations(skyhook: str, *, deleted: bool) -> tuple[str, ...]:
    """Return the annotations that are removed when a Skyhook leaves a node. The entries of its packages stay."""
    names = (
        status,
        copy_dir,
        resource_ids,
        last_error,
        picked_annotation,
        kept_config,
        stage_times,
        drain_start,
        drain_blocks,
        *((version,) if deleted else ()),
    )
    return tuple(name(skyhook) for name in names)
