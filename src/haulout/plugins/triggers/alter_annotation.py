"""alterAnnotation: sets or removes an annotation of the node."""

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.plugins.api import Config, Keep, TriggerInput, trigger


class AlterAnnotation(Config, frozen=True, kw_only=True):
    """The settings of an `alterAnnotation` trigger. `remove` takes the annotation away, whatever `value` says.

    - {type: alterAnnotation, name: note, config: {key: example.com/maintained-by, value: haulout}}
    """

    key: str
    value: str = ""
    remove: bool = False


@trigger("alterAnnotation", AlterAnnotation, keeps=lambda config: Keep(frozenset({config.key})))
def alter_annotation(config: AlterAnnotation, inputs: TriggerInput) -> NodeRow:
    annotations = {name: value for name, value in inputs.node.annotations.items() if name != config.key}
    if not config.remove:
        annotations[config.key] = config.value
    return msgspec.structs.replace(inputs.node, annotations=annotations)
