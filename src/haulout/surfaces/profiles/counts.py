"""Which nodes are in maintenance, counted in groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from datetime import timedelta

from haulout.cluster.limits import Count, Membership
from haulout.cluster.rows import NodeRow, Row
from haulout.surfaces.profiles.wire import (
    DATA_ANNOTATION,
    PROFILE_LABEL,
    STATE_LABEL,
    DataError,
    State,
    attached_profiles,
    parse_data,
)

# The group of nodes whose data cannot be read: whoever has to know since when they are in maintenance cannot.
UNREADABLE: Hashable = ("unreadable",)


class InMaintenance(Count, frozen=True):
    """Nodes whose state label says so, by the values of the labels named in `keys`.

    `profile`: only nodes to which it is attached, whichever profile brought them there. `skip_after`: only nodes whose
    last transition is younger.
    """

    profile: str = ""
    keys: tuple[str, ...] = ()
    skip_after: timedelta = timedelta(0)

    def groups(self, row: Row) -> Iterable[Membership]:
        if not isinstance(row, NodeRow) or row.labels.get(STATE_LABEL) != State.IN_MAINTENANCE:
            return
        if self.profile and self.profile not in attached_profiles(row.labels.get(PROFILE_LABEL)):
            return
        group = tuple(row.labels.get(key, "") for key in self.keys)
        if not self.skip_after:
            yield Membership(group)
            return
        try:
            entries = parse_data(row.annotations.get(DATA_ANNOTATION)).profiles
        except DataError:
            yield Membership(UNREADABLE)
            return
        known = [entry.transition.at for name, entry in entries.items() if self.profile in ("", name)]
        if known:
            yield Membership(group, max(known) + self.skip_after)

    def describe(self, group: Hashable) -> str:
        values = group if isinstance(group, tuple) else ()
        scope = [f"{key}={value}" for key, value in zip(self.keys, values, strict=False)]
        scope += [f"profile {self.profile}"] if self.profile else []
        return "nodes in maintenance" + (f" with {', '.join(scope)}" if scope else "")
