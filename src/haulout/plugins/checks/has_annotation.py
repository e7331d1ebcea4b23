"""hasAnnotation: passes while the node has an annotation, with the given value where one is given."""

from haulout.plugins.api import CheckInput, Config, Keep, Verdict, check
from haulout.plugins.checks.has_label import pair_verdict


class HasAnnotation(Config, frozen=True, kw_only=True):
    """The settings of a `hasAnnotation` check. An empty `value` accepts any value of the annotation.

    - {type: hasAnnotation, name: approved, config: {key: example.com/approved, value: "yes"}}
    """

    key: str
    value: str = ""


@check("hasAnnotation", HasAnnotation, keeps=lambda config: Keep(frozenset({config.key})))
def has_annotation(config: HasAnnotation, inputs: CheckInput) -> Verdict:
    return pair_verdict("annotation", inputs.node.annotations.get(config.key), config.key, config.value)
