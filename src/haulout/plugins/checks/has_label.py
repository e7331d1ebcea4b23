"""hasLabel: passes while the node has a label, with the given value where one is given."""

from functools import lru_cache

from haulout.plugins.api import CheckInput, Config, Verdict, check


class HasLabel(Config, frozen=True, kw_only=True):
    """The settings of a `hasLabel` check. An empty `value` accepts any value of the label.

    - {type: hasLabel, name: wanted, config: {key: example.com/reboot, value: wanted}}
    """

    key: str
    value: str = ""


@check("hasLabel", HasLabel)
def has_label(config: HasLabel, inputs: CheckInput) -> Verdict:
    return pair_verdict("label", inputs.node.labels.get(config.key), config.key, config.value)


# Cached because most nodes share a few values, so that the texts are the same for many nodes.
@lru_cache(maxsize=256)
def pair_verdict(word: str, found: str | None, key: str, value: str) -> Verdict:
    """Return the verdict about a label or an annotation of the node. An empty `value` accepts any value."""
    wanted = f"{key}={value}" if value else key
    add = f"set the {word} {wanted} on the node"
    if found is None:
        finding = f"the {word} {wanted} is missing on the node"
        return Verdict(passed=False, info={"reason": f"{word} {key} not present"}, finding=finding, act=add)
    if value and found != value:
        return Verdict(passed=False, finding=f"the {word} {key} of the node is {found!r}, not {value!r}", act=add)
    remove = f"remove the {word} {key} from the node"
    return Verdict(passed=True, finding=f"the {word} {wanted} is on the node", act=remove)
