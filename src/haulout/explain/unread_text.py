"""The text about something that a command could not read: the right that its user misses, or the error."""

from __future__ import annotations

from haulout.kube.errors import Forbidden

VIEWER = "`haulout rbac viewer` prints the role that allows it"


def unread_text(what: str, error: BaseException | str, verb: str = "list") -> str:
    """Return what could not be read, and why. `what`: the plural name of a kind, such as `pods`."""
    if isinstance(error, Forbidden):
        return f"you may not {verb} {what}: {VIEWER}"
    return f"{what} cannot be read: {str(error) or 'no answer in time'}"
