"""What the logbook records of the maintenances of profiles."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.drain.start_times import start_times
from haulout.core.holds import Claim
from haulout.core.logbook.account import Account, SurfaceLogbook
from haulout.core.logbook.wire import Outcome
from haulout.model.meta import wire_time
from haulout.surfaces.profiles.passes.claims import profile_of
from haulout.surfaces.profiles.wire import DATA_ANNOTATION, PROFILE_LABEL, DataError, State, parse_data


def _account(view: View, claim: Claim) -> Account | None:
    node = view.get(claim.node, NodeRow)
    if node is None:
        return None
    profile = profile_of(claim)
    begun_at = start_times(node).get(profile) or claim.since
    label = node.labels.get(PROFILE_LABEL)
    return Account(
        occasion=wire_time(begun_at),
        begun_at=begun_at,
        reason=f"profile {profile}",
        request=(PROFILE_LABEL, label) if label is not None else None,
    )


def _outcome(view: View, owner: Key, node: Key, part: str) -> Outcome | None:
    row = view.get(node, NodeRow)
    try:
        entry = parse_data(row.annotations.get(DATA_ANNOTATION)).profiles.get(part) if row is not None else None
    except DataError:
        return None
    # A profile that was detached, or that is still on its way, would end before its work is done.
    return Outcome.COMPLETED if entry is not None and entry.current == State.OPERATIONAL else Outcome.CANCELLED


LOGBOOK = SurfaceLogbook(_account, _outcome, profile_of)
