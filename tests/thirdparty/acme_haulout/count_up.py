"""countUp: adds one to the number that is kept in a label."""

from __future__ import annotations

import msgspec

from haulout.plugins.api import Config, Failed, NodeRow, TriggerInput, trigger


class CountUp(Config, frozen=True, kw_only=True):
    key: str


@trigger("countUp", CountUp)
def count_up(config: CountUp, inputs: TriggerInput) -> NodeRow | Failed:
    value = inputs.node.labels.get(config.key, "0")
    if not value.isdecimal():
        return Failed(f"label {config.key} is {value!r}, which is no number")
    return msgspec.structs.replace(inputs.node, labels={**inputs.node.labels, config.key: str(int(value) + 1)})
