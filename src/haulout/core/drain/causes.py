"""The pods that are still on a node, grouped by what they wait for, as the progress of a drain is printed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.core.reason import Reason, best_act

EVICTING, TERMINATING, PACED, PROVING = "evicting", "terminating", "pdb-paced", "proving-empty"
# Causes that end by themselves are listed last.
GOING = frozenset({EVICTING, TERMINATING, PACED, PROVING})


class Cause(msgspec.Struct, frozen=True):
    """One reason why pods have not left their nodes, with all pods that it concerns.

    `pods`: empty where the drain of a whole node is refused; the text then names the pods.
    """

    code: str
    text: str
    pods: tuple[Key, ...] = ()
    until: datetime | None = None
    act: str = ""

    @property
    def blocks(self) -> bool:
        return self.code not in GOING


def causes(trees: Iterable[Reason]) -> tuple[Cause, ...]:
    """Return the causes of these reason trees, those that block first, and otherwise in the order of the trees."""
    groups: dict[tuple[str, str], list[Reason]] = {}
    for tree in trees:
        groups.setdefault((_code(tree), _text(tree)), []).append(tree)
    made = [_cause(code, text, members) for (code, text), members in groups.items()]
    return tuple(sorted(made, key=lambda cause: not cause.blocks))


def _cause(code: str, text: str, members: list[Reason]) -> Cause:
    pods = tuple(tree.subject for tree in members if tree.subject.kind == "Pod")
    until = max((tree.until for tree in members if tree.until), default=None)
    return Cause(code, text, pods, until, best_act(members))


def _code(tree: Reason) -> str:
    """Return the code of what a pod waits for.

    A pod whose budget still allows disruptions only waits for its turn, so that nothing has to be done about it.
    """
    return PACED if tree.because and tree.because[0].code == PACED else tree.code


def _text(tree: Reason) -> str:
    """Return the text that all pods with one cause share: about their budget, or the words after the pod's name."""
    match tree.code:
        case "pdb-blocks" if tree.because:
            return tree.because[0].text
        case "drain-refused":
            return tree.text
        case "evicting":
            return "being evicted"
        case "terminating":
            return "terminating"
        case _:
            return tree.text.partition(": ")[2]
