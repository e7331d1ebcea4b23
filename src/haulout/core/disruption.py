"""Which actions disrupt nodes. During a pause the kernel sends none of them (K22, decision 0179).

The type of an action says it where it can. Where it cannot, the action's field `disrupts` says it, or the names of labels
and annotations that surfaces declare as their records. What nothing is known about disrupts.
"""

from __future__ import annotations

from collections.abc import Iterable

from haulout.cluster.key import Key
from haulout.core import cordon
from haulout.core.action import (
    Action,
    Annotate,
    Cordon,
    Create,
    Delete,
    Evict,
    Finalize,
    KeepCordoned,
    Label,
    Measure,
    Patch,
    Release,
    Say,
    Send,
    SetTaint,
    Tell,
)

# Objects of these kinds only record something. No write to them changes what runs on a node.
RECORDS = frozenset({"Lease", "ConfigMap", "Namespace", "PackageConfigMap", "NodeMetadataConfigMap", "AppliedPackages"})
NODE = "Node"


class Disruptions:
    """Judges actions. `records`: the labels and annotations of Nodes in which surfaces keep what they know.

    A name that ends with `*` stands for every name that begins so; NAME=VALUE stands for that value alone.
    """

    def __init__(self, records: Iterable[str] = ()) -> None:
        names = {*records, cordon.ANNOTATION}
        self._names = frozenset(name for name in names if not name.endswith("*"))
        self._prefixes = tuple(name.removesuffix("*") for name in sorted(names) if name.endswith("*"))

    def disrupts(self, action: Action, subject: Key) -> bool:
        """Whether an action takes a node out of service, or lets work on it begin or go on.

        `subject`: the object that the decision is about.
        """
        match action:
            case Evict() | KeepCordoned():
                return True
            case Cordon():
                return action.unschedulable
            case SetTaint():
                return action.present
            case Release():
                return action.leaves_cordoned
            case Finalize() | Tell() | Measure() | Say():
                return False
        if action.disrupts is not None:
            return action.disrupts
        match action:
            case Send():
                return True
            case Label() | Annotate() if action.value is None:
                return False
            case Label() | Annotate() if action.target.kind == NODE:
                return not self._is_record(action.name, action.value)
            case Patch(subresource="status"):
                return False
            case Label() | Annotate() | Patch() | Create() | Delete():
                # An object that a decision is about carries the records of that decision.
                is_own = action.target == subject and subject.kind != NODE
                return not is_own and action.target.kind.partition("/")[0] not in RECORDS

    def _is_record(self, name: str, value: str | None) -> bool:
        return name in self._names or f"{name}={value}" in self._names or name.startswith(self._prefixes)
