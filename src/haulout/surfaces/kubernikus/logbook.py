"""What the logbook records of a Kubernikus node that is deleted."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.core.holds import Claim
from haulout.core.logbook.account import Account, SurfaceLogbook
from haulout.core.logbook.wire import Outcome
from haulout.surfaces.kubernikus.wire import DELETE_LABEL


def _account(view: View, claim: Claim) -> Account | None:
    return Account(reason="the node is to be deleted", request=(DELETE_LABEL, "true"))


def _outcome(view: View, owner: Key, node: Key, part: str) -> Outcome | None:
    # The maintenance is done when the node is gone. While the node exists, it can only be called off.
    return Outcome.CANCELLED


LOGBOOK = SurfaceLogbook(_account, _outcome)
