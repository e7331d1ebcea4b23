"""The stage of a pass that sends the notifications of a state."""

from __future__ import annotations

import msgspec

from haulout.surfaces.profiles.notifications import tell
from haulout.surfaces.profiles.passes.result import ProfilePass, Result, fail

FAILED = "At least one notification plugin failed"


def notify(around: ProfilePass, result: Result) -> Result:
    """Send the notifications that are due. The pass ends while one is being sent or has failed.

    The changes by triggers of entering and the times of delivery are stored together in one patch, and not before.
    """
    if around.notice is None:
        return result
    progress = tell(around.stage.notify, msgspec.structs.replace(around.notice, node=result.entered or result.node))
    result = msgspec.structs.replace(
        result,
        sent=progress.sent,
        sends=progress.sends,
        telling=progress.instance,
        waiting=progress.waiting,
        times=progress.failures,
        until=progress.until,
        skipped=progress.skipped,
        ended=bool(progress.waiting),
    )
    if progress.error:
        return fail(result, FAILED, f"Notification instance {progress.instance} failed: {progress.error}")
    return result
