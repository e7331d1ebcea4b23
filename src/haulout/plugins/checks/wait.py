"""wait: passes once the node has been in its state for longer than a given time."""

from haulout.plugins.api import CheckInput, Config, Verdict, check
from haulout.plugins.config import GoDurationText


class Wait(Config, frozen=True, kw_only=True):
    duration: GoDurationText


@check("wait", Wait)
def wait(config: Wait, given: CheckInput) -> Verdict:
    passes_at = given.last_transition + config.duration
    if given.now > passes_at:
        return Verdict(passed=True)
    remaining = (passes_at - given.now).total_seconds()
    return Verdict(passed=False, until=passes_at, info={"remaining_seconds": remaining})
