"""wait: passes once the node has been in its state for longer than a given time."""

from haulout.base.clock import after
from haulout.base.spans import span_text
from haulout.plugins.api import CheckInput, Config, Verdict, check
from haulout.plugins.config import GoDurationText


class Wait(Config, frozen=True, kw_only=True):
    """The settings of a `wait` check. `duration` is the time for which the node must have been in its state.

    - {type: wait, name: settled, config: {duration: 1h}}
    """

    duration: GoDurationText


@check("wait", Wait)
def wait(config: Wait, inputs: CheckInput) -> Verdict:
    waited_for = inputs.now - inputs.last_transition
    span = span_text(config.duration)
    if waited_for > config.duration:
        return Verdict(passed=True, finding=f"the node has been {inputs.state} for more than {span}")
    remaining = (config.duration - waited_for).total_seconds()
    until = after(inputs.last_transition, config.duration)
    finding = f"the node has not been {inputs.state} for {span} yet"
    return Verdict(passed=False, until=until, info={"remaining_seconds": remaining}, finding=finding)
