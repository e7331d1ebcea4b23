"""The text about something that a command could not read: the right that its user misses, or the error."""

from __future__ import annotations

import re

import msgspec

from haulout.core.reason import Reason
from haulout.kube.errors import Forbidden

VIEWER = "`haulout rbac viewer` prints the role that allows it"
# Reasons of decisions about what they cannot read. The operator blames itself; a command has the rights of its user.
CODES = frozenset({"budgets-unreadable", "limit-unreadable", "proof-failed", "unreadable"})
# What the API server says: pods is forbidden: User "x" cannot list resource "pods" in API group "" at the cluster scope.
_FORBIDDEN = re.compile(r"(\S+) is forbidden: User \S+ cannot (\S+) resource.*", re.DOTALL)


def unread_text(what: str, error: BaseException | str, verb: str = "list") -> str:
    """Return what could not be read, and why. `what`: the plural name of a kind, such as `pods`."""
    if isinstance(error, Forbidden):
        return f"you may not {verb} {what}: {VIEWER}"
    return f"{what} cannot be read: {str(error) or 'no answer in time'}"


def without_blame(why: str) -> str:
    """Return the error of a table that could not be read. A missing right is named as one of the user of this command."""
    return _FORBIDDEN.sub(rf"you may not \2 \1: {VIEWER}", why)


def with_own_rights(reason: Reason) -> Reason:
    """Return a tree of reasons in which missing rights are those of the user of this command, not of the operator."""
    because = tuple(map(with_own_rights, reason.because))
    text = without_blame(reason.text) if reason.code in CODES else reason.text
    if text == reason.text:
        return msgspec.structs.replace(reason, because=because) if because != reason.because else reason
    return msgspec.structs.replace(reason, text=text, because=because, act=f"get the right: {VIEWER}")
