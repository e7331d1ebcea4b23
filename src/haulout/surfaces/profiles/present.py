"""What people are shown of profiles: why each one is where it is, and what it waits for."""

from __future__ import annotations

from haulout.base.expression import names as names_in
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.holds import Claim, Grant, grant_key, hold_key
from haulout.core.reason import Reason
from haulout.plugins.api import Verdict
from haulout.surfaces.profiles.engine import Config, Judged, Result


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
    claim = next((claim for claim in result.claims if claim.slot.endswith(f"to {judged.transition.next}")), None)
    grant = _grant(claim, view)
    if claim is not None and (grant is None or not grant.granted):
        waits = (
            grant.reasons if grant is not None else (Reason("not-asked", key, "the arbiter has not been asked yet"),)
        )
        return Reason("waits-for-grant", key, where, because=(*waits, *_limits(key, judged)))
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


def _limits(key: Key, judged: Judged) -> tuple[Reason, ...]:
    return tuple(
        _check(key, name, verdict) for name, verdict in judged.verdicts.items() if verdict.limits or verdict.until
    )
