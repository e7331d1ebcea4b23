"""affinity: nodes with pods that prefer operational nodes wait for those without: the pods move only once."""

from collections.abc import Iterable

from haulout.cluster.key import node_key
from haulout.cluster.limits import Count, Membership
from haulout.cluster.rows import PodRow, Row
from haulout.plugins.api import CheckInput, Config, Verdict, check

REQUIRED, OPERATIONAL = "maintenance-required", "operational"


class AffinityPods(Count, frozen=True):
    """Pods that prefer operational nodes, by the node that they are on."""

    @property
    def kind(self) -> str:
        return "Pod"

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, PodRow) and row.spec.prefers_operational and row.node:
            yield Membership(row.node)


AFFINITY_PODS = AffinityPods()


class Affinity(Config, frozen=True, kw_only=True):
    """The settings of an `affinity` check.

    - `minOperational`: pass at once while at least so many nodes of the profile are operational; 0 switches this off.

    - {type: affinity, name: moves-once, config: {minOperational: 3}}
    """

    min_operational: int = 0


@check("affinity", Affinity, takes_null=True, needs=lambda config: frozenset({AFFINITY_PODS.kind}))
def affinity(config: Affinity, inputs: CheckInput) -> Verdict:
    name, view, fleet = inputs.node.key.name, inputs.view, inputs.fleet
    if inputs.state != REQUIRED:
        wrong = f"affinity check plugin failed, node {name} is not in {REQUIRED} but {inputs.state} state"
        return Verdict(passed=False, error=wrong, act=f"use the check in transitions out of {REQUIRED} alone")
    enough = config.min_operational
    if enough > 0 and view.at_least(fleet.states, (inputs.profile, OPERATIONAL), enough):
        finding = f"at least {enough} nodes with profile {inputs.profile} are operational"
        return Verdict(passed=True, info={"reason": "minOperational exceeded"}, finding=finding)
    if not view.at_least(AFFINITY_PODS, name, 1):
        finding = "the node has no pods that prefer operational nodes"
        return Verdict(passed=True, info={"reason": "no pods with affinity"}, finding=finding)
    if view.at_least(fleet.free_to_go, inputs.profile, 1):
        others = inputs.counted(fleet.free_to_go, inputs.profile)
        if not others:
            return Verdict(passed=False)
        finding = f"the node has pods that prefer operational nodes; {others[0].name}, which has none, goes first"
        info = {"reason": f"pods without affinity on: {others[0].name}"}
        return Verdict(passed=False, info=info, finding=finding, waits_for=node_key(others[0].name))
    return Verdict(passed=True, finding="every node that waits has pods that prefer operational nodes")
