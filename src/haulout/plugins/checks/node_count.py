"""nodeCount: passes while the cluster has at least so many nodes."""

from collections.abc import Iterable

from haulout.cluster.limits import Count, Membership
from haulout.cluster.rows import Row
from haulout.plugins.api import CheckInput, Config, Verdict, check


class Nodes(Count, frozen=True):
    """A count of all nodes of the cluster."""

    def groups(self, row: Row) -> Iterable[Membership]:
        yield Membership(())


class NodeCount(Config, frozen=True, kw_only=True):
    """The settings of a `nodeCount` check. `count` is the number of nodes that the cluster must have at least.

    - {type: nodeCount, name: large-enough, config: {count: 3}}
    """

    count: int


@check("nodeCount", NodeCount)
def node_count(config: NodeCount, inputs: CheckInput) -> Verdict:
    passed = inputs.view.at_least(Nodes(), (), config.count)
    current = inputs.view.glance(Nodes(), ())
    info = {"current": current, "expected": config.count}
    than, act = ("at least", "") if passed else ("below", "add nodes to the cluster")
    finding = f"the number of nodes in the cluster is {current}, {than} {config.count}"
    return Verdict(passed=passed, info=info, finding=finding, act=act)
