"""The acts by which people pause and resume the work of every surface, and override budgets (K22, decisions 0179 and 0180).

The kernel obeys what these acts write; surfaces only declare for which of their kinds the acts are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from shlex import join
from typing import Any

from haulout.core.act import (
    NODES,
    Act,
    ActInput,
    ActPlan,
    Argument,
    Endpoint,
    Need,
    NotPossible,
    PersonalWrite,
    Verb,
    WrongArgument,
)

BUDGETS = Endpoint("NodeDisruptionBudget", "haulout.dev", "v1alpha1", "nodedisruptionbudgets")
# Spelled here, too, because this module is imported with the declarations, which has to be fast.
PAUSED, PAUSED_BY = "haulout.dev/paused", "haulout.dev/paused-by"
OVERRIDE, OVERRIDE_BY = "haulout.dev/override", "haulout.dev/override-by"
# The budget that pauses all nodes, and the beginning of the names of those that pause the nodes of a selector.
ALL = "haulout-paused"
LONGEST_OVERRIDE = timedelta(hours=24)
# The annotations by which the originals of Skyhooks and NodeWrights pause one, with the value `true`.
SKYHOOK_SWITCH, NODEWRIGHT_SWITCH = "skyhook.nvidia.com/pause", "nodewright.nvidia.com/pause"
_PLANS = {SKYHOOK_SWITCH: "_skyhook", NODEWRIGHT_SWITCH: "_nodewright"}
_REPLACED = {'"': "'", "\\": "/"}
_SELECTOR = Argument("selector", "A label selector of nodes, as in kubectl; without it, all nodes.")


def steering_acts(endpoint: Endpoint, *, switch: str = "", overrides: bool = True) -> tuple[Act, ...]:
    """Return the acts pause, resume and override for a kind of objects whose work takes nodes out of service.

    `overrides`: its objects claim nodes, so that budgets hold them back.
    `switch`: the annotation by which the kind's own API pauses an object, with the value `true`.
    """
    suffix = _PLANS.get(switch, "")
    return (
        Act(
            name="pause",
            help="stop everything that disrupts its nodes until it is resumed",
            targets=(endpoint,),
            plan=f"haulout.core.steering:pause{suffix}",
            needs=(Need("patch", endpoint),),
            needs_reason=True,
        ),
        Act(
            name="resume",
            help="end the pause",
            targets=(endpoint,),
            plan=f"haulout.core.steering:resume{suffix}",
            needs=(Need("patch", endpoint),),
        ),
        *((_override_act(endpoint),) if overrides else ()),
    )


def _override_act(endpoint: Endpoint) -> Act:
    return Act(
        name="override",
        help="let it begin although a NodeDisruptionBudget has no room, for a limited time",
        targets=(endpoint,),
        plan="haulout.core.steering:override",
        arguments=(
            Argument("limit", "The name of the NodeDisruptionBudget.", required=True, picks=BUDGETS.kind),
            Argument("for", "How long it lasts, such as 2h; at most 24h.", required=True, example="2h"),
        ),
        needs=(Need("patch", endpoint), Need("override", BUDGETS)),
        reads=(BUDGETS,),
        needs_reason=True,
    )


NODE_ACTS = (
    *steering_acts(NODES),
    Act(
        name="pause",
        help="stop everything that disrupts nodes: all of them, or those of a selector",
        targets=(),
        plan="haulout.core.steering:pause_nodes",
        arguments=(_SELECTOR,),
        needs=(Need("create", BUDGETS),),
        reads=(BUDGETS,),
        needs_reason=True,
    ),
    Act(
        name="resume",
        help="end the pause of all nodes, or of those of a selector",
        targets=(),
        plan="haulout.core.steering:resume_nodes",
        arguments=(_SELECTOR,),
        needs=(Need("delete", BUDGETS),),
        reads=(BUDGETS,),
    ),
    Act(
        name="pause",
        help="stop everything that disrupts the nodes of the budget",
        targets=(BUDGETS,),
        plan="haulout.core.steering:pause_budget",
        needs=(Need("patch", BUDGETS),),
        needs_reason=True,
    ),
    Act(
        name="resume",
        help="end the pause of the budget's nodes",
        targets=(BUDGETS,),
        plan="haulout.core.steering:resume_budget",
        needs=(Need("patch", BUDGETS),),
    ),
)


def pause(given: ActInput) -> ActPlan | NotPossible:
    """Annotate an object or a Node as paused."""
    return _pause(given)


def resume(given: ActInput) -> ActPlan | NotPossible:
    """Remove the pause from an object or a Node."""
    return _resume(given)


def pause_skyhook(given: ActInput) -> ActPlan | NotPossible:
    """Pause a Skyhook by its own switch, too, which its original obeys."""
    return _pause(given, SKYHOOK_SWITCH)


def resume_skyhook(given: ActInput) -> ActPlan | NotPossible:
    """Resume a Skyhook, also one that was paused by its own switch alone."""
    return _resume(given, SKYHOOK_SWITCH)


def pause_nodewright(given: ActInput) -> ActPlan | NotPossible:
    """Pause a NodeWright by its own switch, too, which its original obeys."""
    return _pause(given, NODEWRIGHT_SWITCH)


def resume_nodewright(given: ActInput) -> ActPlan | NotPossible:
    """Resume a NodeWright, also one that was paused by its own switch alone."""
    return _resume(given, NODEWRIGHT_SWITCH)


def _pause(given: ActInput, switch: str = "") -> ActPlan | NotPossible:
    if PAUSED in given.annotations:
        return NotPossible(f"it is paused already: {given.annotations[PAUSED]}")
    notes = {PAUSED: given.reason, PAUSED_BY: _author(given)} | ({switch: "true"} if switch else {})
    return ActPlan((_noted(given, notes),), undo=join(("haulout", "resume", _words(given))))


def _resume(given: ActInput, switch: str = "") -> ActPlan | NotPossible:
    known = [name for name in (PAUSED, PAUSED_BY, switch) if name and name in given.annotations]
    if PAUSED not in known and given.annotations.get(switch) != "true":
        return NotPossible("it is not paused itself")
    reason = given.annotations.get(PAUSED) or "paused again"
    undo = join(("haulout", "pause", _words(given), "--reason", reason))
    return ActPlan((_noted(given, dict.fromkeys(known)),), undo=undo)


def pause_nodes(given: ActInput) -> ActPlan | NotPossible:
    """Pause all nodes, or those of a selector, by a NodeDisruptionBudget."""
    selector = _selector(given)
    if isinstance(selector, NotPossible):
        return selector
    name = _name(given.args.get("selector", ""))
    undo = join(("haulout", "resume", *_scope(given)))
    known = _budget(given, name)
    if known is None:
        spec = {**({"selector": selector} if selector else {}), "paused": _paused(given)}
        write = PersonalWrite(Verb.CREATE, BUDGETS, name, body=BUDGETS.manifest(name, spec))
        return ActPlan((write,), undo=undo)
    if old := _pause_of(known):
        return NotPossible(f"they are paused already ({BUDGETS.kind} {name}): {old.get('reason', '')}")
    if (_spec(known).get("selector") or {}) != selector:
        return NotPossible(f"{BUDGETS.kind} {name} exists, and selects other nodes")
    return ActPlan((_budget_write(known, {"paused": _paused(given)}),), undo=undo)


def resume_nodes(given: ActInput) -> ActPlan | NotPossible:
    """End each pause of all nodes, or that of a selector."""
    selector = _selector(given)
    if isinstance(selector, NotPossible):
        return selector
    budgets = given.related.get(BUDGETS.kind, ())
    if budgets is None:
        return NotPossible(f"{BUDGETS.kind}s cannot be read, and it is unknown what is paused")
    paused = [each for each in budgets if _pause_of(each) is not None]
    found = [each for each in paused if (_spec(each).get("selector") or {}) == selector]
    if not found:
        return NotPossible("they are not paused by a NodeDisruptionBudget")
    reason = str((_pause_of(found[0]) or {}).get("reason") or "paused again")
    warnings = tuple(
        f"{BUDGETS.kind} {_named(each)} still pauses nodes (haulout resume {BUDGETS.kind.lower()}/{_named(each)})"
        for each in paused
        if each not in found
    )
    undo = join(("haulout", "pause", *_scope(given), "--reason", reason))
    return ActPlan(tuple(_resumed(each) for each in found), undo=undo, warnings=warnings)


def pause_budget(given: ActInput) -> ActPlan | NotPossible:
    """Pause the nodes of an existing budget."""
    if old := _pause_of(given.target):
        return NotPossible(f"its nodes are paused already: {old.get('reason', '')}")
    undo = join(("haulout", "resume", _words(given)))
    return ActPlan((given.patch(BUDGETS, {"spec": {"paused": _paused(given)}}),), undo=undo)


def resume_budget(given: ActInput) -> ActPlan | NotPossible:
    """End the pause of a budget's nodes."""
    old = _pause_of(given.target)
    if old is None:
        return NotPossible("its nodes are not paused by it")
    undo = join(("haulout", "pause", _words(given), "--reason", str(old.get("reason") or "paused again")))
    write = _resumed(given.target)
    if write.verb is Verb.DELETE:
        undo = join(("haulout", "pause", "--all", "--reason", str(old.get("reason") or "paused again")))
        undo = undo if not _spec(given.target).get("selector") else ""
    return ActPlan((write,), undo=undo)


def override(given: ActInput) -> ActPlan | NotPossible:
    """Annotate an object so that one budget does not hold it back for some time."""
    span = _span(given.args["for"])
    if isinstance(span, NotPossible):
        return span
    budgets = given.related.get(BUDGETS.kind)
    limit = given.args["limit"] or _overridable(budgets or ())
    if budgets is not None and not any(_named(each) == limit for each in budgets):
        return NotPossible(f"there is no {BUDGETS.kind}{f' named {limit}' if limit else ' that limits anything'}")
    if not limit:
        return NotPossible(f"{BUDGETS.kind}s cannot be read, and it is unknown what there is to override")
    until = _instant(given.now + span)
    # The policy that guards overrides reads no escape sequences.
    reason = "".join(_REPLACED.get(each, each if each.isprintable() else " ") for each in given.reason)
    value = json.dumps({"limit": limit, "reason": reason, "until": until}, ensure_ascii=False)
    author = json.dumps({"until": until, "by": given.by, "at": _instant(given.now)})
    endpoint = _endpoint(given)
    undo = ("kubectl", "annotate", endpoint.named, given.name, *(("-n", given.namespace) if given.namespace else ()))
    return ActPlan(
        (_noted(given, {OVERRIDE: value, OVERRIDE_BY: author}),),
        undo=join((*undo, f"{OVERRIDE}-", f"{OVERRIDE_BY}-")),
        warnings=(f"{BUDGETS.kind} {limit} does not protect its nodes from this object until {until}",),
        needs=(Need("override", BUDGETS, name=limit),),
    )


def _overridable(budgets: Iterable[Mapping[str, Any]]) -> str:
    """Return the first budget that refuses anything, to show what an override would do; empty if there is none."""
    return next((_named(each) for each in budgets if set(_spec(each)) - {"selector", "paused"}), "")


def _span(text: str) -> timedelta | NotPossible:
    from haulout.base.duration import DurationError, parse

    try:
        span = parse(text)
    except DurationError as error:
        return WrongArgument(f"for: {error} (such as 2h)")
    if span <= timedelta():
        return WrongArgument("for: it must be longer than 0")
    if span > LONGEST_OVERRIDE:
        return NotPossible(f"for: {text} is longer than 24h, the most that an override may last")
    return span


def _endpoint(given: ActInput) -> Endpoint:
    assert given.endpoint is not None
    return given.endpoint


def _noted(given: ActInput, annotations: Mapping[str, str | None]) -> PersonalWrite:
    """Return the patch of annotations. A Node changes often, and none of its changes matters to this."""
    endpoint = _endpoint(given)
    body = {"metadata": {"annotations": dict(annotations)}}
    return PersonalWrite(Verb.PATCH, endpoint, given.name, given.namespace, body, uid=given.uid)


def _author(given: ActInput) -> str:
    return json.dumps({"reason": given.reason, "by": given.by, "at": _instant(given.now)})


def _paused(given: ActInput) -> dict[str, str]:
    return {"reason": given.reason, **({"by": given.by} if given.by else {}), "at": _instant(given.now)}


def _instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _words(given: ActInput) -> str:
    """Return the object as it is written on the command line."""
    return "/".join(filter(None, (_endpoint(given).kind.lower(), given.namespace, given.name)))


def _scope(given: ActInput) -> tuple[str, ...]:
    selector = given.args.get("selector", "")
    return ("--selector", selector) if selector else ("--all",)


def _name(selector: str) -> str:
    if not selector:
        return ALL
    from hashlib import sha256

    from haulout.base.selector import parse

    return f"{ALL}-{sha256(str(parse(selector)).encode()).hexdigest()[:10]}"


def _selector(given: ActInput) -> dict[str, Any] | NotPossible:
    """Return the LabelSelector of a selector's text; empty for all nodes."""
    from haulout.base.selector import Operator, SelectorError, parse

    words = {
        Operator.IN: "In",
        Operator.NOT_IN: "NotIn",
        Operator.EXISTS: "Exists",
        Operator.ABSENT: "DoesNotExist",
    }
    try:
        requirements = parse(given.args.get("selector", "")).requirements
    except SelectorError as error:
        return WrongArgument(f"selector: {error}")
    if any(each.operator not in words for each in requirements):
        return WrongArgument("selector: the operators > and < are not possible in a NodeDisruptionBudget")
    labels = {each.key: each.values[0] for each in requirements if each.is_equality}
    others = [
        {"key": each.key, "operator": words[each.operator], **({"values": list(each.values)} if each.values else {})}
        for each in requirements
        if not each.is_equality
    ]
    return {**({"matchLabels": labels} if labels else {}), **({"matchExpressions": others} if others else {})}


def _budget(given: ActInput, name: str) -> Mapping[str, Any] | None:
    return next((each for each in given.related.get(BUDGETS.kind) or () if _named(each) == name), None)


def _named(body: Mapping[str, Any]) -> str:
    return str((body.get("metadata") or {}).get("name", ""))


def _spec(body: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = body.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _pause_of(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    paused = _spec(body).get("paused")
    return paused if isinstance(paused, Mapping) else None


def _resumed(body: Mapping[str, Any]) -> PersonalWrite:
    """Return the write that ends the pause of a budget. One that was made for the pause alone is deleted."""
    if _named(body).startswith(ALL) and set(_spec(body)) <= {"paused", "selector"}:
        uid = str((body.get("metadata") or {}).get("uid", ""))
        return PersonalWrite(Verb.DELETE, BUDGETS, _named(body), uid=uid)
    return _budget_write(body, {"paused": None})


def _budget_write(body: Mapping[str, Any], spec: Mapping[str, Any]) -> PersonalWrite:
    meta = body.get("metadata") or {}
    return PersonalWrite(Verb.PATCH, BUDGETS, _named(body), body={"spec": dict(spec)}, uid=str(meta.get("uid", "")))
