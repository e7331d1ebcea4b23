"""The answers of acts as documents: what was written, why it was refused, and what can be done to an object."""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import UNSET, UnsetType

from haulout.core.act import Act, Need, PersonalWrite


class Code(StrEnum):
    """Why an act was refused. The codes are stable."""

    MISSING_RIGHT = "missing-right"
    NOT_POSSIBLE = "not-possible"
    NOT_FOUND = "not-found"
    # The object changed while the act was made. The person should look again.
    CHANGED = "changed"
    # The API server, or an admission webhook, refused a write.
    REFUSED = "refused"
    # The act, its object or its arguments are not what the act takes.
    INVALID = "invalid"
    # The API server did not answer. Whether a write had an effect is not known.
    NO_ANSWER = "no-answer"


class Written(msgspec.Struct, frozen=True):
    """A write as people see it."""

    verb: str
    resource: str
    namespace: str
    name: str


class Missing(msgspec.Struct, frozen=True):
    """A right that the person lacks."""

    verb: str
    group: str
    resource: str
    namespace: str

    @property
    def sentence(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"you may not {self.verb} {what}{where}"


class Done(msgspec.Struct, frozen=True):
    """The answer of an act that was done, or of its dry run. `undo`: the command that takes it back."""

    writes: tuple[Written, ...]
    warnings: tuple[str, ...] = ()
    undo: str = ""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of an act that was refused.

    `verb`, `resource`, `group`, `namespace`: the missing right; in other refusals they are left out. The namespace is
    empty where the right is for the whole cluster. `done`: the writes that were stored before the refusal.
    """

    code: Code
    detail: str
    verb: str | UnsetType = UNSET
    resource: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    done: tuple[Written, ...] = ()


class OfferedArgument(msgspec.Struct, frozen=True):
    """An argument that an offered act takes."""

    name: str
    help: str
    required: bool
    choices: tuple[str, ...]


class Offer(msgspec.Struct, frozen=True, rename="camel"):
    """One act for one object.

    `allowed`: whether the person may do it; None where the access review did not answer.
    `missing`: the right that is missing. `why`: why the object does not allow it now; empty if it does.
    `with_`: the value of the argument `with` that chooses it.
    """

    act: str
    allowed: bool | None
    missing: Missing | None
    why: str
    warnings: tuple[str, ...]
    writes: tuple[Written, ...]
    undo: str
    with_: str = msgspec.field(name="with")
    help: str = ""
    kinds: tuple[str, ...] = ()
    arguments: tuple[OfferedArgument, ...] = ()
    needs_reason: bool = False
    disturbs: bool = False


class Offers(msgspec.Struct, frozen=True):
    """The document of `haulout act -o json`."""

    acts: tuple[Offer, ...]


class Permission(msgspec.Struct, frozen=True):
    """Whether a person may do an act, for objects in general."""

    allowed: bool | None
    missing: Missing | None = None


def personal_change(write: PersonalWrite) -> Written:
    return Written(write.verb, write.endpoint.resource, write.namespace, write.name)


def missing(need: Need) -> Missing:
    resource = "/".join(filter(None, (need.endpoint.resource, need.subresource)))
    return Missing(need.verb, need.endpoint.group, resource, need.namespace)


def missing_right(need: Need, *done: Written) -> Problem:
    """Return the refusal of an act for which the person lacks a right."""
    what = missing(need)
    return Problem(
        Code.MISSING_RIGHT,
        f"{what.sentence}: an administrator has to grant the verb {what.verb} on {what.resource}",
        what.verb,
        what.resource,
        what.group,
        what.namespace,
        done,
    )


def offered_arguments(act: Act) -> tuple[OfferedArgument, ...]:
    return tuple(OfferedArgument(each.name, each.help, each.required, each.choices) for each in act.arguments)
