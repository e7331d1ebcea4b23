"""affinity: nodes with pods that prefer operational nodes wait for those without, so that the pods move only once."""

from collections.abc import Iterable

from haulout.cluster.limits import Count, Limit, Membership
from haulout.cluster.rows import PodRow, Row
from haulout.plugins.api import CheckInput, Config, Verdict, check

REQUIRED, OPERATIONAL = "maintenance-required", "operational"


class AffinityPods(Count, frozen=True):
    """Pods that prefer operational nodes, by the node that they are on."""

    @property
    def kind(self) -> str:
        return "Pod"

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, PodRow) and row.prefers_operational and row.node:
            yield Membership(row.node)


AFFINITY_PODS = AffinityPods()


class Affinity(Config, frozen=True, kw_only=True):
    """The settings of an `affinity` check.

    - `minOperational`: pass at once while at least so many nodes of the profile are operational; 0 switches this off.
    """

    min_operational: int = 0


@check("affinity", Affinity, takes_null=True, needs=lambda config: frozenset({AFFINITY_PODS.kind}))
def affinity(config: Affinity, given: CheckInput) -> Verdict:
    name, view, fleet = given.node.key.name, given.view, given.fleet
    if given.state != REQUIRED:
        wrong = f"affinity check plugin failed, node {name} is not in {REQUIRED} but {given.state} state"
        return Verdict(passed=False, error=wrong)
    enough = config.min_operational
    if enough > 0 and view.at_least(fleet.states, (given.profile, OPERATIONAL), enough):
        return Verdict(passed=True, info={"reason": "minOperational exceeded"})
    if not view.at_least(AFFINITY_PODS, name, 1):
        return Verdict(passed=True, info={"reason": "no pods with affinity"})
    if view.at_least(fleet.free_to_go, given.profile, 1):
        # Which ones they are is for people: looked up for them alone, as it costs a look at everyone.
        others = view.takers(Limit(fleet.free_to_go, given.profile, 1)) if view.explaining else []
        return Verdict(passed=False, info={"reason": f"pods without affinity on: {others[0].name}"} if others else {})
    return Verdict(passed=True)
