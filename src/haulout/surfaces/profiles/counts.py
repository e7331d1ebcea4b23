"""The counts of nodes for profiles: nodes in maintenance, nodes by state, nodes with a newer version."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from datetime import timedelta

from haulout.base.clock import after
from haulout.base.semver import SemverError, Version
from haulout.cluster.limits import Count, Membership
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.view import MARK
from haulout.plugins.api import Fleet
from haulout.surfaces.profiles.wire import (
    DATA_ANNOTATION,
    PROFILE_LABEL,
    STATE_LABEL,
    DataError,
    Entry,
    State,
    is_listed,
    parse_data,
)


def unreadable(group: Hashable) -> Hashable:
    """Return the group of nodes whose data cannot be read, so that it is unknown since when they are in maintenance."""
    return ("unreadable", group)


class InMaintenance(Count, frozen=True):
    """The count of nodes whose state label says in-maintenance, by the values of the labels in `keys`.

    `profile`: only nodes whose label lists this profile, whichever profile caused the maintenance.
    `skip_after`: only nodes whose last transition is younger than this.
    """

    profile: str = ""
    keys: tuple[str, ...] = ()
    skip_after: timedelta = timedelta(0)

    def groups(self, row: Row) -> tuple[Membership, ...]:
        if not isinstance(row, NodeRow) or row.labels.get(STATE_LABEL) != State.IN_MAINTENANCE:
            return ()
        if self.profile and not is_listed(self.profile, row.labels.get(PROFILE_LABEL)):
            return ()
        group = tuple(row.labels.get(key, "") for key in self.keys)
        if not self.skip_after:
            return (Membership(group),)
        try:
            entries = parse_data(row.annotations.get(DATA_ANNOTATION)).profiles
        except DataError:
            return (Membership(unreadable(group)),)
        known = [entry.transition.at for name, entry in entries.items() if self.profile in ("", name)]
        return (Membership(group, after(max(known), self.skip_after)),) if known else ()

    def describe(self, group: Hashable) -> str:
        values = group if isinstance(group, tuple) else ()
        scope = [f"{key}={value}" for key, value in zip(self.keys, values, strict=False)]
        scope += [f"profile {self.profile}"] if self.profile else []
        return "nodes in maintenance" + (f" with {', '.join(scope)}" if scope else "")


class Newer(Count, frozen=True):
    """The count of nodes whose version label is above `than`. A label that is not a version does not count."""

    label: str
    than: Version
    profile: str = ""

    def groups(self, row: Row) -> Iterable[Membership]:
        if not isinstance(row, NodeRow) or self.label not in row.labels:
            return
        if self.profile and not is_listed(self.profile, row.labels.get(PROFILE_LABEL)):
            return
        try:
            if Version(row.labels[self.label]) > self.than:
                yield Membership(())
        except SemverError:
            return


class States(Count, frozen=True):
    """The count of nodes by profile and state, from their data annotation.

    Nodes whose data cannot be read do not count.
    """

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, NodeRow):
            for profile, entry in _entries(row):
                yield Membership((profile, entry.current))


class FreeToGo(Count, frozen=True):
    """The count, by profile, of nodes in maintenance-required without a pod that prefers operational nodes.

    The `marks` module makes the rows that are counted.
    """

    @property
    def kind(self) -> str:
        return MARK

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, Value) and row.key.namespace == FREE_TO_GO and isinstance(row.value, frozenset):
            for profile in row.value:
                yield Membership(profile)


def required_profiles(row: NodeRow) -> frozenset[str]:
    return frozenset(profile for profile, entry in _entries(row) if entry.current == State.REQUIRED)


def _entries(row: NodeRow) -> Iterable[tuple[str, Entry]]:
    try:
        return parse_data(row.annotations.get(DATA_ANNOTATION)).profiles.items()
    except DataError:
        return ()


FREE_TO_GO = "free-to-go"
FLEET = Fleet(newer=Newer, states=States(), free_to_go=FreeToGo())
