"""hasLabel: passes while the node has a label, with the given value where one is given."""

from haulout.plugins.api import CheckInput, Config, Verdict, check


class HasLabel(Config, frozen=True, kw_only=True):
    """The settings of a `hasLabel` check. An empty `value` accepts any value of the label."""

    key: str
    value: str = ""


@check("hasLabel", HasLabel)
def has_label(config: HasLabel, given: CheckInput) -> Verdict:
    found = given.node.labels.get(config.key)
    label = f"{config.key}={config.value}" if config.value else config.key
    add = f"set the label {label} on the node"
    if found is None:
        finding = f"the label {label} is missing on the node"
        return Verdict(passed=False, info={"reason": f"label {config.key} not present"}, finding=finding, act=add)
    if config.value and found != config.value:
        finding = f"the label {config.key} of the node is {found!r}, not {config.value!r}"
        return Verdict(passed=False, finding=finding, act=add)
    remove = f"remove the label {config.key} from the node"
    return Verdict(passed=True, finding=f"the label {label} is on the node", act=remove)
