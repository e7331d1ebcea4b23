"""The estimate for the node of a maintenance, from the rows of its pods, their budgets and their history."""

from __future__ import annotations

from collections.abc import Callable

from haulout.base.selector import SelectorError, from_object
from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import Key
from haulout.cluster.rows import BudgetRow, ObjectRow, PodRow, Row
from haulout.cluster.store import Index, Listing
from haulout.cluster.view import View
from haulout.core.drain.options import Act, DaemonSetLookup, DrainOptions
from haulout.core.drain.selection import Fates
from haulout.surfaces.notify.drainer.decide import OWN_PODS
from haulout.surfaces.notify.drainer.pod_classes import PodClasses
from haulout.surfaces.notify.scheduler.estimate import Estimate, PodContext, estimate
from haulout.surfaces.notify.scheduler.history import samples_of
from haulout.surfaces.notify.situation import NoticeSituation

BUDGET, DAEMONSET = "PodDisruptionBudget", "DaemonSet"


def _exhausted(row: Row) -> tuple[str, ...]:
    return (row.key.namespace,) if isinstance(row, BudgetRow) and row.disruptions_allowed == 0 else ()


# The budgets of each namespace that allow no disruption. An estimate depends on these only, not on every count of a
# budget.
EXHAUSTED_BUDGETS = Index("notify-exhausted-budgets", BUDGET, _exhausted)


def estimate_of(situation: NoticeSituation) -> Estimate:
    """Return the drain estimate for the maintenance's node, by the drainer's rules even if the drainer is off."""
    pods = situation.view.rows(PODS_OF_NODE, situation.row.node, PodRow)
    return estimate(pods, _context(situation), situation.options, situation.now)


def _context(situation: NoticeSituation) -> Callable[[PodRow], PodContext]:
    options = DrainOptions(classes=PodClasses(situation.options.operators.drainer), ignored=OWN_PODS)
    rules = situation.options.rules
    fates = Fates(options, _daemonsets(situation), situation.now, rules=rules, node=situation.node)

    def context(pod: PodRow) -> PodContext:
        act = fates.of(pod).act
        if act is Act.IGNORE:
            return PodContext(act)
        blocked = any(_covers(budget, pod) for budget in _exhausted_budgets(situation.view, pod))
        remembers = act is Act.WAIT and situation.options.operators.scheduler.history.enabled
        return PodContext(act, blocked, samples_of(situation.view, pod) if remembers else ())

    return context


def _daemonsets(situation: NoticeSituation) -> DaemonSetLookup:
    """Return a function that says whether a DaemonSet exists.

    DaemonSets are watched only for the drainer. Without it, the answer is None, which counts as existing.
    """
    if not situation.options.operators.drainer.enabled or situation.view.listing(DAEMONSET) is not Listing.LISTED:
        return lambda namespace, name: None
    return lambda namespace, name: situation.view.get(Key("", DAEMONSET, namespace, name), ObjectRow) is not None


def _exhausted_budgets(view: View, pod: PodRow) -> tuple[BudgetRow, ...]:
    if view.listing(BUDGET) is Listing.UNREADABLE:
        return ()
    return tuple(view.rows(EXHAUSTED_BUDGETS, pod.key.namespace, BudgetRow))


def _covers(budget: BudgetRow, pod: PodRow) -> bool:
    try:
        return budget.selector is not None and from_object(budget.selector).matches(pod.labels)
    except SelectorError:
        # The API server, too, lets a selector that cannot be read select no pod.
        return False
