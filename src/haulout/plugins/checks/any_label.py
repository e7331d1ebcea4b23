"""anyLabel: passes while any node has a label, with the given value where one is given."""

from collections.abc import Iterable

from haulout.cluster.key import name_list
from haulout.cluster.limits import Count, Membership
from haulout.cluster.rows import NodeRow, Row
from haulout.plugins.api import CheckInput, Config, Verdict, check


class Labelled(Count, frozen=True):
    """Nodes with a label, by its value; group `()` is all of them."""

    key: str

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, NodeRow) and self.key in row.labels:
            yield Membership(())
            yield Membership(row.labels[self.key])


class AnyLabel(Config, frozen=True, kw_only=True):
    """The settings of an `anyLabel` check. An empty `value` accepts any value of the label.

    - {type: anyLabel, name: hold-off, config: {key: example.com/incident, value: "open"}}
    """

    key: str
    value: str = ""


@check("anyLabel", AnyLabel)
def any_label(config: AnyLabel, inputs: CheckInput) -> Verdict:
    label = f"{config.key}={config.value}" if config.value else config.key
    labelled, group = Labelled(config.key), config.value or ()
    if not inputs.view.at_least(labelled, group, 1):
        return Verdict(passed=False, finding=f"no node has the label {label}", act=f"set the label {label} on a node")
    names = name_list(inputs.counted(labelled, group))
    act = f"remove the label {config.key} from {names}" if names else ""
    return Verdict(passed=True, finding=f"the label {label} is on {names or 'a node'}", act=act)
