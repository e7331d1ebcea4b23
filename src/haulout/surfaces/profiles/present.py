"""What people are shown of profiles: why each one is where it is, and what it waits for."""

from __future__ import annotations

from haulout.base.expression import names as names_in
from haulout.cluster.key import Key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.holds import Claim, Grant, grant_key, hold_key
from haulout.core.reason import Reason
from haulout.plugins.api import Verdict
from haulout.surfaces.profiles.engine import Config, Judged, Result, slot_of

MOST_SHOWN = 10


def reasons(
    node: NodeRow, results: list[Result], names: tuple[str, ...], config: Config, view: View
) -> tuple[Reason, ...]:
    """One tree a profile: its state, its transitions, and the checks that keep each from happening."""
    unknown = [
        Reason("profile-unknown", node.key, f"profile {name} is not configured")
        for name in names
        if name not in config.profiles
    ]
    return (*(_profile(node.key, result, view) for result in results), *unknown)


def _profile(key: Key, result: Result, view: View) -> Reason:
    because = tuple(_transition(key, result, judged, view) for judged in result.judged)
    text = f"profile {result.profile} is {result.state}"
    if result.error:
        because = (Reason("failing", key, f"{result.failure}: {result.error}".removeprefix(": ")), *because)
    elif not because:
        text += " and has no way out of it"
    return Reason("profile-state", key, text, result.until, because)


def _transition(key: Key, result: Result, judged: Judged, view: View) -> Reason:
    where = f"to {judged.transition.next} ({judged.transition.text.strip()})"
    if judged.error:
        return Reason("check-fails", key, f"{where}: {judged.error}", because=_checks(key, judged))
    if not judged.passed:
        return Reason("checks-do-not-pass", key, where, because=_checks(key, judged))
    if not judged.allowed:
        return Reason("other-profile", key, f"{where}: another profile of this node is in maintenance")
    claim = next((claim for claim in result.claims if claim.slot == slot_of(result, judged)), None)
    grant = _grant(claim, view)
    if claim is not None and (grant is None or not grant.granted):
        return Reason("waits-for-grant", key, where, because=_waits(key, judged, grant, view))
    return Reason("goes", key, f"{where}: passes")


def _grant(claim: Claim | None, view: View) -> Grant | None:
    return view.get(grant_key(hold_key("profiles", claim)), Grant) if claim is not None else None


def _checks(key: Key, judged: Judged) -> tuple[Reason, ...]:
    order = dict.fromkeys(names_in(judged.transition.check))
    return tuple(_check(key, name, judged.verdicts[name]) for name in order)


def _check(key: Key, name: str, verdict: Verdict) -> Reason:
    said = verdict.error or ("passes" if verdict.passed else "does not pass")
    details = ", ".join(f"{field}: {value}" for field, value in verdict.info.items())
    code = "check-passes" if verdict.passed else "check-fails" if verdict.error else "check-waits"
    return Reason(code, key, f"{name} {said}" + (f" ({details})" if details else ""), verdict.until)


def _waits(key: Key, judged: Judged, grant: Grant | None, view: View) -> tuple[Reason, ...]:
    """Who takes the places is looked up now; the rest is as the arbiter said it."""
    if grant is None:
        return (Reason("not-asked", key, "the arbiter has not been asked yet"),)
    full = (_full(key, name, limit, view) for name, verdict in judged.verdicts.items() for limit in verdict.limits)
    others = (reason for reason in grant.reasons if reason.code != "no-room")
    return (*others, *(reason for reason in full if reason))


def _full(key: Key, name: str, limit: Limit, view: View) -> Reason | None:
    takers = view.takers(limit)
    if len(takers) < limit.most:
        return None
    shown = ", ".join(taker.name for taker in takers[:MOST_SHOWN]) + (", ..." if len(takers) > MOST_SHOWN else "")
    text = f"{name}: {len(takers)} of {limit.most} {limit.count.describe(limit.group)} ({shown})"
    return Reason("no-room", key, text)
