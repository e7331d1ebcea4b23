"""The reasons for the states of profiles: why each is in its state, and what it waits for."""

from __future__ import annotations

from haulout.base.expression import culprits
from haulout.cluster.key import Key, name_list
from haulout.cluster.limits import Limit
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.holds import Claim, Grant, grant_key, hold_key, no_answer_yet
from haulout.core.reason import Reason
from haulout.plugins.api import Verdict
from haulout.surfaces.profiles.passes.claims import slot_of
from haulout.surfaces.profiles.passes.result import Config, Judged, Result
from haulout.surfaces.profiles.wire import State

# For each state that is not operational, the state that leads towards the end of the maintenance.
LEADS_ON = {State.REQUIRED.value: State.IN_MAINTENANCE, State.IN_MAINTENANCE.value: State.OPERATIONAL}


def reasons(
    node: NodeRow, results: list[Result], names: tuple[str, ...], config: Config, view: View
) -> tuple[Reason, ...]:
    """Return one tree of reasons for each profile: its state, its transitions, and the checks that block them."""
    known = ", ".join(config.profiles)
    unknown = [
        Reason("profile-unknown", node.key, f"profile {name} is not configured (configured are: {known})")
        for name in names
        if name not in config.profiles
    ]
    return (*(profile_reason(node.key, result, view) for result in results), *unknown)


def profile_reason(key: Key, result: Result, view: View) -> Reason:
    """Return why a profile is in its state, with what each transition waits for."""
    because = tuple(_transition(key, result, judged, view) for judged in result.judged)
    text = f"profile {result.profile} is {result.state}"
    is_at_rest = result.state == State.OPERATIONAL
    if result.goes_on and result.error:
        because = (Reason("goes", key, result.error), *because)
    elif result.error:
        because = (Reason("failing", key, f"{result.failure}: {result.error}".removeprefix(": ")), *because)
    elif result.waiting:
        because = (Reason("notification", key, f"{result.waiting}, and transitions wait for it"),)
    elif not because:
        text = f"{text}, and no transition leads out of it"
        return Reason("at-rest", key, text) if is_at_rest else Reason("no-transition", key, text)
    elif is_at_rest and not any(judged.passed or judged.error for judged in result.judged):
        return Reason("not-wanted", key, text, because=because)
    return Reason("profile-state", key, text, because=because)


def _transition(key: Key, result: Result, judged: Judged, view: View) -> Reason:
    where = f"to {judged.transition.next} if {' '.join(judged.transition.text.split())}"
    if judged.error:
        return Reason("check-fails", key, f"{where}: {judged.error}", because=_errors(key, judged))
    if not judged.passed:
        return Reason("checks-do-not-pass", key, f"{where}: not yet", because=_culprits(key, result, judged))
    if not judged.allowed:
        return Reason("other-profile", key, f"{where}: another profile of this node is in maintenance")
    claim = next((claim for claim in result.claims if claim.slot == slot_of(result, judged)), None)
    grant = _grant(claim, view)
    if claim is not None and (grant is None or not grant.granted):
        return Reason("waits-for-grant", key, f"{where}: waits", because=_waits(key, judged, grant, view))
    return Reason("goes", key, f"{where}: goes")


def _grant(claim: Claim | None, view: View) -> Grant | None:
    return view.get(grant_key(hold_key("profiles", claim)), Grant) if claim is not None else None


def _errors(key: Key, judged: Judged) -> tuple[Reason, ...]:
    failed = ((name, verdict) for name, verdict in judged.verdicts.items() if verdict.error)
    return tuple(Reason("check-fails", key, f"{name} fails: {each.error}", act=each.act) for name, each in failed)


def _culprits(key: Key, result: Result, judged: Judged) -> tuple[Reason, ...]:
    """Return the checks that would have to answer differently. They suggest an act only if the transition leads on."""
    values = {name: verdict.passed for name, verdict in judged.verdicts.items()}
    found = culprits(judged.transition.check, values)
    # Acts that start or abandon a maintenance do not help a node that waits. Nor do acts for one transition if another
    # passes and only waits for its grant.
    leads_on = LEADS_ON.get(result.state) == judged.transition.next
    may_act = leads_on and not any(other.passed for other in result.judged)
    return tuple(_check(key, name, judged.verdicts[name], wanted=wanted, may_act=may_act) for name, wanted in found)


def _check(key: Key, name: str, verdict: Verdict, *, wanted: bool, may_act: bool) -> Reason:
    act = verdict.act if may_act else ""
    if verdict.finding:
        text = f"{name}: {verdict.finding}" if wanted else f"{name} must not pass: {verdict.finding}"
        return Reason("check-waits", verdict.waits_for or key, text, verdict.until, act=act)
    text = f"{name} does not pass" if wanted else f"{name} passes, and must not"
    return Reason("check-waits", key, text + _details(verdict), verdict.until, act=act)


def _details(verdict: Verdict) -> str:
    """Return the details of a verdict; empty if it has an instant, which says more than the remaining seconds."""
    if verdict.until is not None or not verdict.info:
        return ""
    if set(verdict.info) == {"reason"}:
        return f": {verdict.info['reason']}"
    return f" ({', '.join(f'{field}: {value}' for field, value in verdict.info.items())})"


def _waits(key: Key, judged: Judged, grant: Grant | None, view: View) -> tuple[Reason, ...]:
    """Return what the transition waits for.

    The nodes that hold the places are looked up now. The rest is the arbiter's answer.
    """
    if grant is None:
        return (no_answer_yet(key),)
    verdicts = judged.verdicts.items()
    full = (_full(key, name, limit, verdict, view) for name, verdict in verdicts for limit in verdict.limits)
    others = (reason for reason in grant.reasons if reason.code != "no-room")
    return (*others, *(reason for reason in full if reason))


def _full(key: Key, name: str, limit: Limit, verdict: Verdict, view: View) -> Reason | None:
    takers = view.takers(limit)
    if len(takers) < limit.most:
        return None
    names = name_list(takers)
    places = f"{len(takers)} of {limit.most}" if takers else f"0 of {limit.most} allowed"
    text = f"{name}: {places} {limit.count.describe(limit.group)}" + (f" ({names})" if names else "")
    # A reader's next question is what happens on the node that holds the place.
    subject = takers[0] if takers and takers[0].kind == "Node" else key
    return Reason("no-room", subject, text, verdict.until, act=verdict.act)
