"""The API server's refusals of a maintenance's writes, in the original's words."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from haulout.cluster.key import Key
from haulout.core.action import Action, Cordon, Delete, Finalize, Label, Patch, Refusal, SetTaint, Step


def outcome_name(act: str, key: Key) -> str:
    """Return the name under which the refusals of one act of a maintenance are kept."""
    return f"nodemaintenance/{act}/{key.name}"


def with_outcome(step: Step, name: str) -> Step:
    """Return the same step, whose refusal becomes the outcome of this name."""
    return tuple(
        msgspec.structs.replace(action, outcome=name)
        if isinstance(action, Label | SetTaint | Cordon | Finalize | Patch | Delete)
        else action
        for action in step
    )


def beginning(actions: Iterable[Action], refusal: Refusal) -> str:
    """Return what the original would have failed at first: it labels, taints and cordons one after the other."""
    return _text(actions, refusal, (Label, SetTaint, Cordon))


def ending(actions: Iterable[Action], refusal: Refusal) -> str:
    """Return the same for the end, where the original begins with the taints."""
    return _text(actions, refusal, (SetTaint, Cordon, Label))


def _text(actions: Iterable[Action], refusal: Refusal, order: tuple[type[Action], ...]) -> str:
    kinds = {type(action) for action in actions}
    first = next((kind for kind in order if kind in kinds), None)
    if first is SetTaint:
        return f"patching node taints failed: {refusal.message}"
    return f"cordon error: {refusal.message}" if first is Cordon else refusal.message
