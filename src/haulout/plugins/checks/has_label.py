"""hasLabel: passes while the node has a label, with the given value where one is given."""

from haulout.plugins.api import CheckInput, Config, Verdict, check


class HasLabel(Config, frozen=True, kw_only=True):
    """The settings of a `hasLabel` check. An empty `value` accepts any value of the label."""

    key: str
    value: str = ""


@check("hasLabel", HasLabel)
def has_label(config: HasLabel, given: CheckInput) -> Verdict:
    found = given.node.labels.get(config.key)
    if found is None:
        return Verdict(passed=False, info={"reason": f"label {config.key} not present"})
    return Verdict(passed=not config.value or found == config.value)
