"""hasAnnotation: passes while the node has an annotation, with the given value where one is given."""

from haulout.plugins.api import CheckInput, Config, Keep, Verdict, check


class HasAnnotation(Config, frozen=True, kw_only=True):
    """The settings of a `hasAnnotation` check. An empty `value` accepts any value of the annotation."""

    key: str
    value: str = ""


@check("hasAnnotation", HasAnnotation, keeps=lambda config: Keep(frozenset({config.key})))
def has_annotation(config: HasAnnotation, given: CheckInput) -> Verdict:
    found = given.node.annotations.get(config.key)
    if found is None:
        return Verdict(passed=False, info={"reason": f"annotation {config.key} not present"})
    return Verdict(passed=not config.value or found == config.value)
