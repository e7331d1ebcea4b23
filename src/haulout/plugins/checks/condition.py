"""condition: passes while a condition of the node has the given status."""

from functools import lru_cache

from haulout.plugins.api import CheckInput, Config, Verdict, check


class Condition(Config, frozen=True, kw_only=True):
    """The settings of a `condition` check: the type of a condition, such as `Ready`, and the status that it must have.

    - {type: condition, name: ready, config: {type: Ready, status: "True"}}
    """

    type: str
    status: str


@check("condition", Condition)
def condition(config: Condition, inputs: CheckInput) -> Verdict:
    return status_verdict(inputs.node.condition(config.type), config.type, config.status)


# Cached because a condition has three statuses at most, so that the texts are the same for many nodes.
@lru_cache(maxsize=256)
def status_verdict(current: str | None, kind: str, expected: str, of: str = "the node") -> Verdict:
    """Return the verdict about a condition. `of`: what messages call the object that has it."""
    if current is None:
        reason = f"condition {kind} not present"
        return Verdict(passed=False, info={"reason": reason}, finding=f"{of} has no condition {kind}")
    passed = current == expected
    finding = f"the condition {kind} of {of} is {current}" + ("" if passed else f", not {expected}")
    return Verdict(passed=passed, info={"current": current, "expected": expected}, finding=finding)
