"""The stages of a pass around the entry of a state: its triggers, and storing that it is entered."""

from __future__ import annotations

import msgspec

from haulout.plugins.api import Failed, Retry
from haulout.surfaces.profiles.passes.result import ProfilePass, Result, fail, put_off, retry
from haulout.surfaces.profiles.passes.triggers import names_of, pull
from haulout.surfaces.profiles.wire import Entry


def enter(around: ProfilePass, result: Result) -> Result:
    """Run the triggers of the state, if the profile has just entered it."""
    if not around.is_entering:
        return result
    entered = pull(around.stage.enter, around, result)
    result = msgspec.structs.replace(result, writes=entered.writes)
    if isinstance(entered.trouble, Retry):
        return msgspec.structs.replace(retry(result, entered.trouble), error=entered.trouble.reason)
    if isinstance(entered.trouble, Failed):
        result = put_off(result, entered.refused)
        return fail(result, f"Failed to enter state {result.state}", entered.trouble.reason)
    return msgspec.structs.replace(result, entered=entered.node)


def settle(around: ProfilePass, result: Result) -> Result:
    """Record that the state is entered, after its notifications are delivered.

    This is stored even if a later stage fails, so that neither the triggers nor the notifications are repeated.
    """
    if result.entered is None:
        return result
    entry = Entry(around.entry.transition, result.state, result.state)
    return msgspec.structs.replace(result, node=result.entered, entry=entry, pulled=names_of(around.stage.enter))
