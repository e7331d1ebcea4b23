"""What a surface says about its maintenances for the logbook: functions of its declaration."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from haulout.base.bounds import instant
from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.core.holds import Claim
from haulout.core.logbook.wire import Outcome

# The phases that surfaces report.
WORKING, VALIDATING = "working", "validating"


class Account(msgspec.Struct, frozen=True):
    """What a surface says about the maintenance for which one of its claims has begun.

    `occasion`: a stored text, usually an instant, that tells this maintenance from earlier ones of the same owner on the
    same node. After a restart it has to be the same.
    `begun_at`: when it began, where that is stored. `asked_at`: when it was asked for.
    `reason`: why it was asked for, in the words of the person who asked, or in ours.
    `request`: what was asked for by a label of the Node, as its name and value; None: by the owner itself.
    `asker`: the object for which the owner was made, and whose author counts; None: the owner itself.
    """

    occasion: str = ""
    begun_at: datetime | None = None
    asked_at: datetime | None = None
    reason: str = ""
    request: tuple[str, str] | None = None
    asker: Key | None = None


def stored_instant(text: str) -> datetime | None:
    """Return the instant in an annotation or a status; None if there is none."""
    try:
        return instant(datetime.fromisoformat(text)) if text else None
    except ValueError:
        return None


def _plain(view: View, claim: Claim) -> Account | None:
    return Account()


def _not_known(view: View, owner: Key, node: Key, part: str) -> Outcome | None:
    return None


def _whole(claim: Claim) -> str:
    return ""


def _no_error(view: View, owner: Key, node: Key, part: str) -> str:
    return ""


def _no_stage(view: View, owner: Key, node: Key, part: str) -> str:
    return ""


class SurfaceLogbook(msgspec.Struct, frozen=True):
    """How the logbook learns about the maintenances of a surface.

    `account`: returns what to record of a claim that has begun; None: the claim is no maintenance.
    `outcome`: returns how a maintenance of this owner, node and part ends or would end now, as stored objects say; None:
    they do not say, because the owner is gone. It runs again whenever something that it has read changes, so it must not
    read an owner that has many nodes.
    `part`: tells maintenances of one owner on one node apart that go on at the same time, such as a profile's name.
    `error`: returns why a maintenance failed whose `outcome` is FAILED, in one sentence; empty: nothing says why.
    `stage`: returns the phase that a maintenance of this owner, node and part has reached, `WORKING` or `VALIDATING`, where
    stored objects say so; empty: they do not. Like `outcome`, it runs again whenever something that it has read changes.
    """

    account: Callable[[View, Claim], Account | None] = _plain
    outcome: Callable[[View, Key, Key, str], Outcome | None] = _not_known
    part: Callable[[Claim], str] = _whole
    error: Callable[[View, Key, Key, str], str] = _no_error
    stage: Callable[[View, Key, Key, str], str] = _no_stage
