"""alterFinalizer: adds or removes a finalizer of the node."""

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.plugins.api import Config, TriggerInput, trigger


class AlterFinalizer(Config, frozen=True, kw_only=True):
    """The settings of an `alterFinalizer` trigger. `key` is the finalizer; `remove` removes it.

    - {type: alterFinalizer, name: keep, config: {key: example.com/maintenance}}
    """

    key: str
    remove: bool = False


@trigger("alterFinalizer", AlterFinalizer)
def alter_finalizer(config: AlterFinalizer, inputs: TriggerInput) -> NodeRow:
    finalizers = inputs.node.finalizers
    if config.remove:
        finalizers = tuple(name for name in finalizers if name != config.key)
    elif config.key not in finalizers:
        finalizers = (*finalizers, config.key)
    return msgspec.structs.replace(inputs.node, finalizers=finalizers)
