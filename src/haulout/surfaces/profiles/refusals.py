"""Writes of a pass that the API server refuses: the profile that wanted them fails, and the other profiles continue."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import Annotate, Create, Edit, NodeEdit, Refusal, Say, Statement, Write
from haulout.core.decision import earliest
from haulout.core.drain.start_times import ANNOTATION as STARTED_ANNOTATION
from haulout.core.refusals import PASSING
from haulout.plugins.config import Config
from haulout.surfaces.profiles.load import Instance

FAILED = "Failed to patch node on the API server"
# Refusals because of our credentials or our speed, which are not the fault of a profile.
NOT_BY_WRITE = (401, 408)
# Twice the delay after a failed write. Until then the other profiles of the node continue without this one.
FIRST_FOR = timedelta(seconds=2)
LONGEST_FOR = timedelta(minutes=2)


class Refused(msgspec.Struct, frozen=True):
    """A write of a plugin that the API server has refused.

    `until`: when it is tried again. `times`: how often it has been refused.
    """

    refusal: Refusal
    times: int
    until: datetime

    @property
    def error(self) -> str:
        return f"{FAILED}: {self.refusal.message}"

    @property
    def is_final(self) -> bool:
        return 400 <= self.refusal.code < 500 and self.refusal.code not in NOT_BY_WRITE


class Wish(msgspec.Struct, frozen=True):
    """The edits that one profile wants of the node in a pass, besides its own entry."""

    profile: str
    changes: tuple[Edit, ...]


def name_of(node: Key, wishes: Iterable[Wish]) -> str:
    """Return the name of a patch's outcome. Other wishes give another name, so an old refusal does not block them."""
    return f"profiles/patch/{node.name}/{[(wish.profile, [_text(edit) for edit in wish.changes]) for wish in wishes]}"


def with_outcome(edits: tuple[NodeEdit, ...], name: str) -> tuple[NodeEdit, ...]:
    """Return the patch with the name of the outcome that records its refusal."""
    return (msgspec.structs.replace(edits[0], outcome=name), *edits[1:]) if edits else ()


def refused_write(view: View, name: str, now: datetime, passing: Container[int] = PASSING) -> Refused | None:
    outcome = view.outcome(name)
    if outcome is None or not isinstance(outcome.value, Refusal) or outcome.value.code in passing:
        return None
    put_off_for = min(FIRST_FOR * 2.0 ** min(outcome.failures - 1, 10), LONGEST_FOR)
    until = outcome.value.at + put_off_for
    return Refused(outcome.value, outcome.failures, until) if now < until else None


class Author(msgspec.Struct, frozen=True):
    """A plugin instance that writes objects other than the node, and the profile for which it does."""

    node: Key
    profile: str
    instance: str
    config: Config

    def with_outcomes(self, writes: tuple[Write, ...]) -> tuple[Write, ...]:
        """Return the writes with the names of the outcomes that record their refusals."""
        return tuple(msgspec.structs.replace(write, outcome=self._name(isinstance(write, Create))) for write in writes)

    def refusal(self, view: View, now: datetime) -> Refused | None:
        """Return a refusal because of which the author must not write now; None if there is none."""
        # A 404 for a creation means that the namespace is missing, so it counts as a refusal.
        kept_from_making = refused_write(view, self._name(True), now, (*NOT_BY_WRITE, 409, 429))
        return kept_from_making or refused_write(view, self._name(False), now, (*NOT_BY_WRITE, *PASSING))

    def _name(self, is_made: bool) -> str:
        # The settings are part of the name: with other settings an old refusal does not count.
        verb = "make" if is_made else "change"
        return f"profiles/{verb}/{self.node.name}/{self.profile}/{self.instance}/{self.config}"


def author_of(node: NodeRow, profile: str, instance: Instance[Any]) -> Author:
    """Return the author for the writes of a profile's plugin instance."""
    return Author(node.key, profile, instance.name, instance.config)


class Withheld(msgspec.Struct, frozen=True):
    """The profiles that must not change the node now.

    `profiles`: why, by name; None if another profile is tried alone first. `until`: when that ends.
    """

    profiles: Mapping[str, Refused | None] = {}
    until: datetime | None = None


NOTHING_WITHHELD = Withheld()


def withheld(view: View, node: Key, wishes: Sequence[Wish], now: datetime) -> Withheld:
    if not wishes:
        return NOTHING_WITHHELD
    alone = {wish.profile: refused_write(view, name_of(node, (wish,)), now) for wish in wishes}
    guilty = {profile: each for profile, each in alone.items() if each is not None and each.is_final}
    remaining = [wish for wish in wishes if wish.profile not in guilty]
    together = refused_write(view, name_of(node, remaining), now) if len(remaining) > 1 else None
    waiting = remaining[1:] if together is not None and together.is_final else []
    until = earliest(*(each.until for each in (*alone.values(), together) if each is not None))
    return Withheld({**guilty, **{wish.profile: None for wish in waiting}}, until)


def refusal_statements(node: Key, refusals: Iterable[Refused]) -> tuple[Statement, ...]:
    messages = dict.fromkeys(each.refusal.message for each in refusals)
    return tuple(Say(FAILED, (("node", node.name), ("error", message)), "error") for message in messages)


def _text(edit: Edit) -> str:
    # Only the name of this annotation counts. Its value is the start of a drain, and another one does not make another
    # wish.
    return edit.name if isinstance(edit, Annotate) and edit.name == STARTED_ANNOTATION else repr(edit)
