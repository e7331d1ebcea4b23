"""The preview of a drain that has not begun: which pods their budgets would block as things stand."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.base.selector import SelectorError, from_object
from haulout.cluster.indexes import BUDGETS_OF_NAMESPACE
from haulout.cluster.rows import BudgetRow, PodRow
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.drain.options import Act
from haulout.core.drain.pace import allowance, uses_budget
from haulout.core.drain.plan import asks_budgets
from haulout.core.drain.progress import PodStanding, Progress, Standing, closed_text, several_text
from haulout.core.drain.selection import Fate


def foresee(view: View, state: Progress, now: datetime) -> Progress:
    """Return the progress that a drain would have if it had begun. No eviction is sent."""

    def standing_of(pod: PodRow, fate: Fate) -> PodStanding:
        standing = state.standing_of(pod, fate)
        return _foresee(view, standing, now) if fate.act is Act.EVICT else standing

    return msgspec.structs.replace(state, standing_of=standing_of)


def _foresee(view: View, each: PodStanding, now: datetime) -> PodStanding:
    budgets = _budgets(view, each.pod) if each.standing is Standing.EVICTING and asks_budgets(each.pod) else []
    keys = tuple(budget.key for budget in budgets)
    if len(budgets) > 1:
        return PodStanding(each.pod, Standing.SEVERAL_BUDGETS, several_text(keys), now, keys)
    if budgets and uses_budget(budgets[0], healthy=bool(each.pod.ready)) and not allowance(budgets[0]):
        return PodStanding(each.pod, Standing.BUDGET, closed_text(keys[0]), now, keys)
    return each


def _budgets(view: View, pod: PodRow) -> list[BudgetRow]:
    if view.listing("PodDisruptionBudget", pod.key.cluster) is Listing.UNREADABLE:
        return []
    found = view.rows(BUDGETS_OF_NAMESPACE, pod.key.namespace, BudgetRow, pod.key.cluster)
    return [budget for budget in found if _covers(budget, pod)]


def _covers(budget: BudgetRow, pod: PodRow) -> bool:
    try:
        return budget.selector is not None and from_object(budget.selector).matches(pod.labels)
    except SelectorError:
        # To the server, a selector that cannot be read selects no pod.
        return False
