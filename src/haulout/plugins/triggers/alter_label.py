"""alterLabel: sets or removes a label of the node."""

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.plugins.api import Config, TriggerInput, trigger


class AlterLabel(Config, frozen=True, kw_only=True):
    """The settings of an `alterLabel` trigger. `remove` takes the label away, whatever `value` says.

    - {type: alterLabel, name: forget, config: {key: example.com/reboot, remove: true}}
    """

    key: str
    value: str = ""
    remove: bool = False


@trigger("alterLabel", AlterLabel)
def alter_label(config: AlterLabel, inputs: TriggerInput) -> NodeRow:
    labels = {name: value for name, value in inputs.node.labels.items() if name != config.key}
    if not config.remove:
        labels[config.key] = config.value
    return msgspec.structs.replace(inputs.node, labels=labels)
