"""The second stage of a pass: the notifications of a state."""

from __future__ import annotations

import msgspec

from haulout.surfaces.profiles.notifications import tell
from haulout.surfaces.profiles.passes.result import ProfilePass, Result, failed

FAILED = "At least one notification plugin failed"


def notify(around: ProfilePass, result: Result) -> Result:
    """Send the notifications that are due. The pass ends while one is under way or has failed.

    What was done on entering and what was sent are stored by one patch, and nothing of it before.
    """
    if around.notice is None:
        return result
    told = tell(around.stage.notify, msgspec.structs.replace(around.notice, node=result.entered or result.node))
    result = msgspec.structs.replace(
        result,
        sent=told.sent,
        sends=told.sends,
        telling=told.instance,
        waiting=told.waiting,
        times=told.failures,
        until=told.until,
        skipped=told.skipped,
        ended=bool(told.waiting),
    )
    if told.error:
        return failed(result, FAILED, f"Notification instance {told.instance} failed: {told.error}")
    return result
