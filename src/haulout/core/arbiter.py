"""The arbiter: from the holds on one node, limits and the clock to grants (decision 0002).

The decision runs once for each node; limits that span nodes are rooms. Claims are answered in a fixed order: priority,
then age, then name. Every hold that waits gets its reason.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

import msgspec

from haulout.base.bounds import LEFT_OUT
from haulout.cluster.key import Key
from haulout.cluster.limits import Limit
from haulout.cluster.reservations import reservations
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import View, holds_table
from haulout.core import cordon_remains
from haulout.core.action import Measure, Say, Statement, Tell
from haulout.core.budgets.cover import BudgetNeed, Cover, cover_of
from haulout.core.budgets.quorum import NAME as QUORUM
from haulout.core.budgets.rule import NAME as BUDGETS
from haulout.core.budgets.wire import KIND as BUDGET
from haulout.core.decision import NOTHING, Decider, Decision, earliest
from haulout.core.holds import HOLDS_OF_NODE, MOST_PRIORITY, Blocked, Grant, Hold, Rank, Want, grant_key
from haulout.core.override import Override, is_unguarded, override_changes_at, override_of, passed_override
from haulout.core.pause import Pause, pause_of_node, pause_of_object, reason_of
from haulout.core.reason import Reason

NAME = "arbiter"
PHASE = 1
BACKING_OFF = "backing-off"
OVERRIDDEN = "haulout_budget_overrides_total"
MOST_NOTE = 1000
FIRST = Rank(-MOST_PRIORITY - 1)
NO_RANK = Rank()


class Rules(msgspec.Struct, frozen=True, dict=True):
    """The rules by which the arbiter answers claims.

    `turns`: one surface at a time may work on a node (off where a single original's behaviour is wanted).
    `budgets`: NodeDisruptionBudgets are obeyed; the kernel must then run their decision, too.
    `within`: decisions that share the turn of another surface, as (decision, surface).
    """

    surfaces: tuple[str, ...]
    turns: bool = True
    budgets: bool = False
    within: tuple[tuple[str, str], ...] = ()

    def surface_of(self, hold: Hold) -> str:
        for decision, surface in self.within:
            if decision == hold.surface:
                return surface
        return hold.surface

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables of the claims of all surfaces."""
        return tuple(map(holds_table, self.surfaces))

    @cached_property
    def home_tables(self) -> tuple[str, ...]:
        """The tables that the arbiter of the home cluster needs: those of all surfaces, and those of budgets."""
        return (*self.tables, holds_table(BUDGETS), holds_table(QUORUM)) if self.budgets else self.tables


def arbiter(rules: Rules) -> Decider:
    def decide(key: Key, view: View, now: datetime) -> Decision:
        return arbitrate(rules, key, view, now)

    # Nodes of other clusters are not claimed here: they have operators of their own. To run the arbiter for each
    # of them would let the owner of a workload cluster decide how much time it takes.
    # If the arbiter itself fails, existing grants stay in force. It makes no claims, so its failure blocks no node.
    return Decider(NAME, "Node", decide, PHASE, rank=best_rank, nodes=lambda key, store: ())


def best_rank(key: Key, store: Store) -> Rank:
    """Return the best rank among the claims that wait for a grant.

    Granted claims do not count: otherwise waiting claims on the same node would overtake those on other nodes.
    Claims that have begun and have no grant yet come first, because their places are taken already. After a start, no
    claim has a grant.
    """
    best: Rank | None = None
    for row in store.bucket(HOLDS_OF_NODE, key.cluster, key):
        if not isinstance(row, Hold) or _stands(row, store):
            continue
        if row.claim.begun:
            return FIRST
        rank = row.rank
        if best is None or rank < best:
            best = rank
    return best if best is not None else NO_RANK


def _stands(hold: Hold, store: Store) -> bool:
    grant = store.row(grant_key(hold.key))
    return isinstance(grant, Grant) and grant.granted


def arbitrate(rules: Rules, node: Key, view: View, now: datetime) -> Decision:
    for table in rules.tables if node.cluster else rules.home_tables:
        # The claims of a surface whose objects cannot be read are not known. The other surfaces go on.
        if view.listing(table, node.cluster) is Listing.WAITING:
            view.require(table, node.cluster)
    rows = view.rows(HOLDS_OF_NODE, node, Row, node.cluster)
    holds = [row for row in rows if isinstance(row, Hold)]
    if not holds:
        return cordon_remains.decide(node, view) if rules.budgets and not rows else NOTHING
    if len(holds) > 1:
        holds.sort(key=lambda hold: (not hold.claim.begun, hold.rank))
    blocked = [row.surface for row in rows if isinstance(row, Blocked)] if len(rows) > len(holds) else []
    disrupted = rules.budgets and any(hold.claim.disrupts for hold in holds)
    cover = cover_of(node, view) if disrupted else None
    lost = _lost_budgets(node, view) if disrupted else ()
    pause = pause_of_node(node, view) if rules.budgets else None
    standing = frozenset([hold.key for hold in holds if hold.claim.begun or _granted(hold, view, now)])
    refused = _judge(rules, holds, standing, cover, view, now, blocked, lost, pause)
    delays = [reason.until for reasons in refused.values() for reason in reasons if reason.code == BACKING_OFF]
    ends = [] if cover is None else [override_changes_at(hold.claim.owner, view, now) for hold in holds]
    used = () if cover is None else _overrides_used(rules, holds, standing, refused, cover, view, now)
    return Decision(
        actions=(used,) if used else (),
        grants=tuple([_answer(hold, refused[hold.key], cover) for hold in holds]),
        # A claim that waits for a room or a window is woken when it is its turn. With an `until`, all of them would run
        # at once.
        until=earliest(*delays, *ends),
    )


def _judge(
    rules: Rules,
    holds: list[Hold],
    standing: frozenset[Key],
    cover: Cover | None,
    view: View,
    now: datetime,
    blocked: list[str],
    lost: tuple[Reason, ...],
    pause: Pause | None,
) -> dict[Key, tuple[Reason, ...]]:
    """Return why each claim is refused; a claim without a reason is granted.

    `standing`: the holds that have begun, or have been granted before.
    """
    refused: dict[Key, tuple[Reason, ...]] = dict.fromkeys(standing, ())
    waiting = [hold for hold in holds if hold.key not in standing]
    if rules.budgets:
        for hold in waiting:
            if found := pause or pause_of_object(hold.claim.owner, view):
                refused[hold.key] = (reason_of(found, hold.claim.node),)
        waiting = [hold for hold in waiting if hold.key not in refused]
    if not waiting:
        return refused
    candidates = waiting
    granted = [hold for hold in holds if hold.key in standing]
    turn = _turn(rules, granted)
    held = any(hold.claim.disrupts for hold in granted)
    joinable = held
    while waiting:
        for hold in waiting:
            reasons = _refusals(rules, hold, cover, view, now, turn, blocked, lost, held=held)
            refused[hold.key] = reasons
            if not reasons and turn is None and Want.EXCLUSIVE in hold.claim.wants:
                turn = rules.surface_of(hold)
            held |= not reasons and hold.claim.disrupts
        # Once one claim may take the node out of service, an earlier claim that was refused may be able to join it.
        waiting = [each for each in candidates if refused[each.key] and each.claim.disrupts] if held != joinable else []
        joinable = held
    return refused


def _turn(rules: Rules, standing: list[Hold]) -> str | None:
    """Return the surface that works on the node: one that has begun, else one that has been granted the turn."""
    if not rules.turns:
        return None
    return next((rules.surface_of(hold) for hold in standing if Want.EXCLUSIVE in hold.claim.wants), None)


def _granted(hold: Hold, view: View, now: datetime) -> bool:
    """Whether a claim was granted earlier, and its hold is neither declined nor paused since."""
    earlier = view.recall(grant_key(hold.key), Grant)
    passed_on = hold.declined or (hold.paused_until is not None and hold.paused_until > now)
    return earlier is not None and earlier.granted and not passed_on


def _refusals(
    rules: Rules,
    hold: Hold,
    cover: Cover | None,
    view: View,
    now: datetime,
    turn: str | None,
    blocked: list[str],
    lost: tuple[Reason, ...],
    *,
    held: bool,
) -> tuple[Reason, ...]:
    claim = hold.claim
    if hold.paused_until is not None and hold.paused_until > now:
        return (Reason(BACKING_OFF, claim.owner, "its last attempt was refused", until=hold.paused_until),)
    if hold.declined:
        return (Reason("not-used", claim.owner, "its turn was granted but not used"),)
    if blocked:
        return tuple(
            Reason("claims-unknown", claim.node, f"the claims of {name} are not known yet") for name in blocked
        )
    if rules.turns and Want.EXCLUSIVE in claim.wants and turn not in (None, rules.surface_of(hold)):
        return (Reason("turn-taken", claim.node, f"{turn} is working on the node"),)
    if lost and claim.disrupts:
        return lost
    needs: tuple[BudgetNeed, ...] = ()
    if cover is not None and claim.disrupts:
        surface = rules.surface_of(hold)
        override = passed_override(claim.owner, cover.budgets, view, now)
        passes = override.limit if override is not None else ""
        if invalid := cover.invalid(surface, passes):
            return invalid
        needs = cover.needs(surface, held=held, passes=passes)
    if not claim.limits and not needs:
        return ()
    if unknown := _lost_limits(claim.node, claim.limits, view):
        return unknown
    own = [frozenset({limit}) for limit in claim.limits]
    full = view.unmet((*own, *(need.rooms for need in needs)) if needs else own)
    if not full:
        return ()
    mine = (_no_room(claim.node, limit) for limit in dict.fromkeys(claim.limits) if frozenset({limit}) in full)
    return (*mine, *(need.reason(view) for need in needs if need.rooms in full))


def _overrides_used(
    rules: Rules,
    holds: list[Hold],
    standing: frozenset[Key],
    refused: dict[Key, tuple[Reason, ...]],
    cover: Cover,
    view: View,
    now: datetime,
) -> tuple[Statement, ...]:
    """Return the event and the count of each object whose claim only an override lets begin now.

    An object may have a second claim on the node, such as that to have it alone. It needs no room of a budget.
    """
    found: list[Statement] = []
    out = {hold.claim.owner for hold in holds if hold.key in standing and hold.claim.disrupts}
    for hold in holds:
        owner = hold.claim.owner
        if hold.key in standing or not hold.claim.disrupts or owner in out:
            continue
        if refused[hold.key]:
            found += _ignored(owner, cover, view, now)
            continue
        override = passed_override(owner, cover.budgets, view, now)
        if override is not None and cover.would_refuse(override.limit, rules.surface_of(hold), view, held=bool(out)):
            found += _used(owner, hold.claim.node, override)
        out.add(owner)
    return tuple(found)


def _used(owner: Key, node: Key, override: Override) -> tuple[Statement, ...]:
    until = f"{override.until:%Y-%m-%d %H:%M} UTC"
    note = f"Node {node.name} may be taken out of service without room under {BUDGET} {override.limit} until {until}: {override.reason}"
    fields = (("node", node.name), ("object", str(owner)), ("budget", override.limit), ("reason", override.reason))
    return (
        Tell(owner, "BudgetOverridden", "OverrideBudget", note[:MOST_NOTE], "haulout", warning=True),
        Measure(OVERRIDDEN, (("budget", override.limit),)),
        Say("a node budget was overridden", fields, "warning"),
    )


def _ignored(owner: Key, cover: Cover, view: View, now: datetime) -> tuple[Statement, ...]:
    """Return the event about an override without effect, because admission guards none."""
    override = override_of(owner, view, now)
    if override is None or all(key.name != override.limit for key in cover.budgets) or not is_unguarded(view):
        return ()
    note = f"The override of {BUDGET} {override.limit} has no effect: neither the webhook nor the policy that guards overrides is registered"
    return (Tell(owner, "BudgetOverrideIgnored", "OverrideBudget", note, "haulout", warning=True),)


def _lost_budgets(node: Key, view: View) -> tuple[Reason, ...]:
    """Return why nothing new may be disrupted while it is not known which NodeDisruptionBudgets there are for the node.

    Any of them might refuse.
    """
    row = view.get(node, NodeRow)
    if row is not None and LEFT_OUT in row.labels:
        text = "the node has too many labels to know which budgets select it"
        return (Reason("labels-left-out", node, text, act=f"remove labels from node {node.name}"),)
    why = None if node.cluster else view.unreadable(BUDGET)
    if why is None:
        return ()
    act = "allow Haulout to read NodeDisruptionBudgets (`haulout rbac kernel` prints the rights)"
    return (Reason("budgets-unreadable", node, f"{BUDGET}s cannot be read: {why}", act=act),)


def _lost_limits(node: Key, limits: tuple[Limit, ...], view: View) -> tuple[Reason, ...]:
    """Return why a claim is refused whose own limits count objects that cannot be read: those limits are full."""
    found: dict[tuple[str, str], Reason] = {}
    for limit in limits:
        kind = limit.count.kind
        why = view.unreadable(kind, limit.cluster)
        if why is not None:
            found[limit.cluster, kind] = Reason("limit-unreadable", node, f"{kind} cannot be read: {why}")
    return tuple(found.values())


def _no_room(node: Key, limit: Limit) -> Reason:
    return Reason("no-room", node, f"{limit.count.describe(limit.group)}: no more than {limit.most} at a time")


def _answer(hold: Hold, refusals: tuple[Reason, ...], cover: Cover | None) -> Grant:
    claim, granted = hold.claim, not refusals
    own = tuple(reservations(claim.limits, claim.node)) if granted else ()
    grant = Grant(key=grant_key(hold.key), hold=hold.key, granted=granted, reasons=refusals, reserves=own)
    if cover is None or not granted or not claim.disrupts:
        return grant
    # Under a budget the node counts for as long as it is held, even if a person uncordons it meanwhile.
    return msgspec.structs.replace(grant, reserves=(*own, *cover.places()), budgets=cover.budgets)
