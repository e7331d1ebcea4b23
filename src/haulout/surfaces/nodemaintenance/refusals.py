"""The texts for writes of a maintenance that the API server refuses, in the original's words."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from haulout.cluster.key import Key
from haulout.core.action import Action, Delete, Finalize, KeepCordoned, Label, Patch, Refusal, Release, SetTaint, Step


def outcome_name(act: str, key: Key) -> str:
    """Return the name of the outcome that records refusals of one act of a maintenance."""
    return f"nodemaintenance/{act}/{key.name}"


def with_outcome(step: Step, name: str) -> Step:
    """Return the step with the name of the outcome that records its refusal. Actions that have one keep it."""
    return tuple(
        msgspec.structs.replace(action, outcome=name)
        if isinstance(action, Label | SetTaint | KeepCordoned | Release | Finalize | Patch | Delete)
        and not action.outcome
        else action
        for action in step
    )


def beginning(actions: Iterable[Action], refusal: Refusal) -> str:
    """Return the error for refused edits at the beginning.

    The original labels, taints and cordons one after the other, so the first of these is named.
    """
    return _text(actions, refusal, (Label, SetTaint, KeepCordoned))


def ending(actions: Iterable[Action], refusal: Refusal) -> str:
    """Return the error for refused edits at the end. There the original begins with the taints."""
    return _text(actions, refusal, (SetTaint, Release, Label))


def _text(actions: Iterable[Action], refusal: Refusal, order: tuple[type[Action], ...]) -> str:
    kinds = {type(action) for action in actions}
    first = next((kind for kind in order if kind in kinds), None)
    if first is SetTaint:
        return f"patching node taints failed: {refusal.message}"
    return f"cordon error: {refusal.message}" if first in (KeepCordoned, Release) else refusal.message
