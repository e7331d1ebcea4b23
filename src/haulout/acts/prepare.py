"""Prepares acts: finds the object, chooses among acts of one name, checks arguments, and works out the writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from haulout.acts.answers import Code, Problem, missing_right
from haulout.acts.caller import Caller, is_about_rights
from haulout.acts.declared import DeclaredAct, claimant_kinds, kind_named
from haulout.base.bounds import ORDINARY, text
from haulout.core.act import LONGEST_TEXT, Act, ActInput, ActPlan, Endpoint, Need, NotPossible, Objects
from haulout.kube.errors import ApiError, KubeError, NotFound
from haulout.surfaces.registry import load

WITH = "with"
# The longest text of an answer, which is also the longest of what the console shows of objects.
LONGEST_SHOWN = ORDINARY.longest


class Target(msgspec.Struct, frozen=True):
    """The object of an act, by its kind as in manifests. An empty kind: the act needs no object."""

    kind: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def words(self) -> str:
        """The object as it is written on the command line."""
        return "/".join(filter(None, (self.kind.lower(), self.namespace, self.name)))


NOTHING = Target()


class FoundObject(msgspec.Struct, frozen=True):
    """The object of an act as the API server sent it, with its kind; without a kind, nothing."""

    endpoint: Endpoint | None = None
    body: Mapping[str, Any] = {}


async def find_object(caller: Caller, target: Target) -> FoundObject | Problem:
    """Read the object of an act."""
    if not target.kind:
        return FoundObject()
    endpoint = kind_named(target.kind)
    if endpoint is None:
        return Problem(Code.INVALID, f"there are no acts for objects of the kind {target.kind}")
    if not target.name or bool(target.namespace) > endpoint.is_namespaced:
        return Problem(
            Code.INVALID, f"{endpoint.kind} is named {'NAMESPACE/NAME' if endpoint.is_namespaced else 'NAME'}"
        )
    if "/" in target.name or "/" in target.namespace:
        return Problem(Code.INVALID, f"{target.name} is not the name of a {endpoint.kind}")
    try:
        return FoundObject(endpoint, await caller.read(endpoint, target.namespace, target.name))
    except NotFound as error:
        if not error.of_object and await caller.serves(endpoint) is False:
            return Problem(Code.NOT_FOUND, _not_served(endpoint))
        return Problem(Code.NOT_FOUND, f"there is no {endpoint.kind} named {target.name}")
    except ApiError as error:
        if is_about_rights(error):
            return missing_right(Need("get", endpoint, target.namespace, target.name))
        return Problem(Code.REFUSED, f"{target.words} cannot be read: {error}")
    except KubeError as error:
        return Problem(Code.NO_ANSWER, f"{target.words} cannot be read: {error}")


async def choose(caller: Caller, acts: Sequence[DeclaredAct], args: Mapping[str, str]) -> DeclaredAct | Problem:
    """Return the act that the argument `with` names; without it, the first that the cluster serves."""
    ways = [each.act.way for each in acts if each.act.way]
    if word := args.get(WITH, ""):
        found = [each for each in acts if each.act.way == word]
        return found[0] if found else Problem(Code.INVALID, f"with: {word!r} is none of {', '.join(ways)}")
    for each in acts:
        if not each.act.needs_arguments and not await unserved(caller, each.act):
            return each
    return acts[0]


async def unserved(caller: Caller, act: Act) -> str:
    """Return why the cluster cannot do an act, because it does not serve a kind; empty if it does, or is not known to."""
    for need in act.needs:
        if await caller.serves(need.endpoint) is False:
            return _not_served(need.endpoint)
    return ""


def _not_served(endpoint: Endpoint) -> str:
    return f"this cluster does not serve {endpoint.named} (haulout crds prints the definitions)"


def read_arguments(act: Act, args: Mapping[str, str], reason: str) -> dict[str, str] | Problem:
    """Return the arguments of an act, checked."""
    known = {each.name: each for each in act.arguments}
    found = {name: value for name, value in args.items() if name != WITH and value}
    for name, value in found.items():
        if name not in known:
            there = f" (there are: {', '.join(known)})" if known else ""
            return Problem(Code.INVALID, f"{act.name}: there is no argument {name!r}{there}")
        if known[name].choices and value not in known[name].choices:
            return Problem(Code.INVALID, f"{act.name}: {name}: {value!r} is none of {', '.join(known[name].choices)}")
        if len(value) > known[name].longest:
            return Problem(Code.INVALID, f"{act.name}: {name} is longer than {known[name].longest} characters")
    for each in act.arguments:
        if each.required and each.name not in found:
            return Problem(Code.INVALID, f"{act.name}: the argument {each.name} is missing: {each.help}")
    if act.needs_reason and not reason.strip():
        return Problem(Code.INVALID, f"{act.name}: a reason is missing")
    if len(reason) > LONGEST_TEXT:
        return Problem(Code.INVALID, f"{act.name}: the reason is longer than {LONGEST_TEXT} characters")
    return found


async def plan_of(
    caller: Caller, act: Act, subject: FoundObject, args: Mapping[str, str], reason: str
) -> ActPlan | NotPossible:
    """Return the writes of an act on an object, or why the object does not allow it."""
    if problem := await unserved(caller, act):
        return NotPossible(problem)
    related: dict[str, Objects] = {}
    for kind in (*act.reads, *(claimant_kinds() if act.reads_claimants else ())):
        if await caller.serves(kind) is not False:
            related[kind.kind] = await caller.every(kind)
    given = ActInput(
        subject.body, args, reason.strip(), await caller.user(), datetime.now(UTC), related, subject.endpoint
    )
    plan = load(act.plan)(given)
    assert isinstance(plan, ActPlan | NotPossible)
    return _bounded(plan)


def _bounded(plan: ActPlan | NotPossible) -> ActPlan | NotPossible:
    """Return a plan whose texts people can read. An annotation that one of them repeats may have 256 KiB."""
    if isinstance(plan, NotPossible):
        return msgspec.structs.replace(plan, why=text(plan.why, LONGEST_SHOWN))
    warnings = tuple(text(each, LONGEST_SHOWN) for each in plan.warnings)
    if len(plan.undo) <= LONGEST_SHOWN:
        return msgspec.structs.replace(plan, warnings=warnings)
    # A command that is cut off would do something else.
    lost = f"no command undoes it, because a value that it replaces has more than {LONGEST_SHOWN} characters"
    return msgspec.structs.replace(plan, warnings=(*warnings, lost), undo="")


def needs_of(plan: ActPlan) -> tuple[Need, ...]:
    """Return every right that the writes of a plan need, each once."""
    writes = (
        # RBAC cannot limit creations by name: the object has no name yet when the rule is checked.
        Need(
            write.verb, write.endpoint, write.namespace, "" if write.verb == "create" else write.name, write.subresource
        )
        for write in plan.writes
    )
    return tuple(dict.fromkeys((*plan.needs, *writes)))
