"""The quorum of etcd as a rule for the arbiter: fewer than half of etcd's members may be out of service at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime

from haulout.base.selector import parse
from haulout.cluster.key import Key
from haulout.cluster.rows import PodRow, Row, Value
from haulout.cluster.store import Index
from haulout.cluster.view import CONFIG, View
from haulout.core.budgets.budget import Budget, NodeNames
from haulout.core.budgets.counts import Ruling, ruling_key
from haulout.core.decision import NOTHING, Decider, Decision

NAME = "quorum"
# The namespace and the label of etcd's static pods, as kubeadm and then OpenShift run them on control-plane nodes.
LABELS = (("kube-system", "component"), ("openshift-etcd", "app"))
# The key of the quorum among budgets. No object has a slash in its name, so it can be no NodeDisruptionBudget.
BUDGET = Key("", "Quorum", "", "etcd/quorum")
# While pods cannot be read, it is not known which nodes run etcd. Then the quorum covers all control-plane nodes.
CONTROL_PLANE = parse("node-role.kubernetes.io/control-plane")


def is_member(row: Row) -> bool:
    """Whether a pod is a member of etcd: a static pod, which the API server shows as a mirror pod."""
    return isinstance(row, PodRow) and row.spec.mirror and is_etcd(row.key.namespace, row.labels)


def is_etcd(namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether the namespace and the labels of a static pod are those of a member of etcd."""
    return any(namespace == place and labels.get(label) == "etcd" for place, label in LABELS)


def _members(row: Row) -> Iterable[Hashable]:
    return (True,) if is_member(row) else ()


ETCD_MEMBERS = Index("etcd-members", "Pod", _members)


def quorum_row(*, kept: bool) -> Value:
    """Return the configuration row that says whether the quorum is kept."""
    return Value(key=Key("", CONFIG, "", NAME), value=kept)


def decide(key: Key, view: View, now: datetime) -> Decision:
    """Publish the rule that fewer than half of etcd's members may be out of service at a time."""
    setting = view.config(NAME) if key.name == NAME else None
    if setting is None or not setting.value:
        return NOTHING
    if (why := view.unreadable("Pod")) is not None:
        problem = f"which nodes run etcd is not known: Pods cannot be read: {why}"
        return _ruling(Budget(BUDGET, selector=CONTROL_PLANE, most=0, problems=(problem,)))
    nodes = frozenset(pod.node for pod in view.rows(ETCD_MEMBERS, True, PodRow) if pod.node)
    return _ruling(Budget(BUDGET, selector=NodeNames(nodes), most=(len(nodes) - 1) // 2)) if nodes else NOTHING


def _ruling(budget: Budget) -> Decision:
    most = budget.most if isinstance(budget.most, int) else 0
    return Decision(marks=(Value(key=ruling_key(budget.name), value=Ruling(budget, most)),))


# Runs before the surfaces and the arbiter, like the decision about NodeDisruptionBudgets.
KEEPER = Decider(NAME, CONFIG, decide, phase=-2)
