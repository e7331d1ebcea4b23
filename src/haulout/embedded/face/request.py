"""One HTTP request to the embedded API server: its object, and the options in its query and body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from haulout.embedded.face import responses
from haulout.embedded.face.routes import Route
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals
from haulout.embedded.rules.fields import unknown_fields
from haulout.embedded.rules.refusals import Problem
from haulout.embedded.store.kinds import Kind
from haulout.embedded.store.managed_fields import LONGEST, manager_of
from haulout.embedded.store.registry import Deletion
from haulout.embedded.store.server import unreadable
from haulout.kube.errors import ApiError

_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


APPLY_PATCH = "application/apply-patch+yaml"


class Request:
    """One HTTP request to the embedded API server.

    `headers`: by their names in lower case.
    `notes_fields`: objects note which client writes which field.
    `warnings`: the warnings for the client, collected while the request is carried out.
    """

    def __init__(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
        *,
        notes_fields: bool = False,
    ) -> None:
        self.notes_fields = notes_fields
        self.method = method
        self.path = path
        self.query = query
        self.body = body
        self.content_type = headers.get("content-type", "")
        self.form = responses.PLAIN
        self.warnings: list[str] = []
        self.accept = headers.get("accept", "")
        self._user_agent = headers.get("user-agent", "")

    @property
    def is_apply(self) -> bool:
        """Whether it is a server-side apply."""
        return self.content_type.partition(";")[0].strip() == APPLY_PATCH

    @property
    def is_forced(self) -> bool:
        """Whether an apply takes fields from other managers."""
        return self.query.get("force") in {"true", "1"}

    @property
    def manager(self) -> str:
        """The name of the client, as the server notes it for the fields that the request writes."""
        return manager_of(self.query.get("fieldManager", ""), self._user_agent)

    def negotiate(self, *, custom: bool = False) -> None:
        """Choose the form of the response by the Accept header. `custom`: the request is about a custom kind."""
        self.form = responses.negotiate(self.accept, custom=custom)

    @property
    def plain(self) -> responses.Form:
        """The accepted media type, for responses that have no Table."""
        return responses.Form(media=self.form.media)

    def value(self, kind: str, type_name: str) -> Json:
        """Return the sent object without a check of its kind. `type_name` is its Go type, or empty."""
        return responses.read_body(self.body, self.content_type, kind, type_name) or {}

    def write_options(self, options: str) -> bool:
        """Return whether the write is a dry run. Raises `Invalid` if the query makes no sense for a write."""
        dry, checked = self.query.get("dryRun", ""), self.query.get("fieldValidation", "")
        problems = []
        if self.is_apply and options == "PatchOptions":
            if not self.query.get("fieldManager"):
                problems.append(refusals.missing("fieldManager", "is required for apply patch"))
        elif "force" in self.query and options == "PatchOptions":
            problems.append(refusals.forbidden_field("force", "may not be specified for non-apply patch"))
        problems += _manager_problems(self.query.get("fieldManager", ""))
        problems += _dry_run_problems([dry] if dry else [])
        if checked not in _VALIDATIONS:
            problems.append(refusals.unsupported_value("fieldValidation", checked, _VALIDATIONS))
        if problems:
            raise refusals.invalid(options, "meta.k8s.io", "", problems)
        return bool(dry)

    def obj(self, kind: Kind, known: Iterable[Kind]) -> Json:
        """Return the sent object. Raises if it is not of this kind."""
        sent = self.value(kind.kind, kind.type)
        if not kind.custom:
            if why := strange_kind(kind, sent, known):
                version = str(sent.get("apiVersion") or kind.api_version).rpartition("/")[2]
                sent_kind = sent.get("kind") or kind.kind
                raise refusals.bad_request(
                    f'{sent_kind} in version "{version}" cannot be handled as a {kind.kind}: {why}'
                )
            return sent
        if not sent.get("kind"):
            text = self.body.decode(errors="replace")
            raise responses.unrecognized_body(self.body, kind.kind, f"Object 'Kind' is missing in '{text}'")
        check_custom(kind, sent)
        return sent

    def judge_unknown(self, kind: Kind, sent: Any, unknown: list[str], *, patched: bool = False) -> None:
        """Warn of unknown fields, refuse them or ignore them, as `fieldValidation` in the query says."""
        if not unknown:
            return
        policy = self.query.get("fieldValidation") or "Warn"
        paths = unknown_fields(kind.type, sent) if kind.type else sorted(unknown)
        if patched:
            # The patched object is read again as the server prints it, in the order of names.
            paths.sort()
        if policy == "Warn":
            self.warnings += [f'unknown field "{path}"' for path in paths]
        if policy == "Strict":
            found = ", ".join(f'unknown field "{path}"' for path in paths)
            why = f"strict decoding error: {found}"
            raise unpatchable(sent, why) if patched else unreadable(kind, why)

    def deletion(self) -> Deletion:
        """Return the deletion that the body asks for, or the query if there is no body."""
        if not self.body.strip():
            return read_deletion(self._queried())
        sent = self.value("DeleteOptions", "meta.DeleteOptions")
        kind = sent.get("kind") or "DeleteOptions"
        if kind != "DeleteOptions":
            version = sent.get("apiVersion") or "v1"
            raise refusals.bad_request(_unregistered(kind, version))
        return read_deletion(sent)

    def _queried(self) -> Json:
        """Return the DeleteOptions in the query."""
        read: Mapping[str, Callable[[str], Any]] = {
            "propagationPolicy": str,
            "orphanDependents": lambda text: text == "true",
            "dryRun": lambda text: [text],
            "gracePeriodSeconds": str,
        }
        return {name: read[name](value) for name, value in self.query.items() if name in read}


def read_deletion(asked: Json) -> Deletion:
    """Return the deletion that DeleteOptions ask for. Raises `Invalid` if they contradict each other."""
    policy, orphan, dry = asked.get("propagationPolicy"), asked.get("orphanDependents"), asked.get("dryRun") or []
    problems = []
    if policy is not None and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(refusals.wrong("propagationPolicy", policy, text))
    if policy not in {None, *_PROPAGATIONS}:
        problems.append(refusals.unsupported_value("propagationPolicy", policy, (*_PROPAGATIONS, "nil")))
    problems += _dry_run_problems(dry)
    if problems:
        raise refusals.invalid("DeleteOptions", "meta.k8s.io", "", problems)
    conditions = asked.get("preconditions") or {}
    grace = _grace(asked.get("gracePeriodSeconds"))
    return Deletion(grace, conditions.get("uid"), conditions.get("resourceVersion"), policy, orphan, bool(dry))


def _grace(seconds: Any) -> int | None:
    try:
        return None if seconds is None else int(seconds)
    except (TypeError, ValueError):
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{seconds}": invalid syntax') from None


def _manager_problems(name: str) -> list[Problem]:
    field = "fieldManager"
    problems = [refusals.too_long(field, LONGEST)] if len(name.encode()) > LONGEST else []
    return problems + [
        refusals.wrong(field, name, f"invalid character U+{ord(sign):04X} (at position {index})")
        for index, sign in enumerate(name)
        if not sign.isprintable()
    ]


def _dry_run_problems(asked: list[str]) -> list[Problem]:
    return [refusals.unsupported_value("dryRun", asked, ("All",))] if set(asked) - {"All"} else []


def strange_kind(kind: Kind, sent: Json, known: Iterable[Kind]) -> str:
    """Return why the sent apiVersion and kind do not fit this built-in kind; empty if they do."""
    sent_kind, version = sent.get("kind") or kind.kind, sent.get("apiVersion") or kind.api_version
    if sent_kind == kind.kind and version == kind.api_version:
        return ""
    if any(each.kind == sent_kind and each.api_version == version for each in known):
        package = kind.group.partition(".")[0] or "core"
        return f"converting (v1.{sent_kind}) to ({package}.{kind.kind}): unknown conversion"
    return _unregistered(sent_kind, version)


def _unregistered(kind: str, version: str) -> str:
    return f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'


def check_custom(kind: Kind, sent: Json) -> None:
    """Raise unless a custom object names its own apiVersion and kind."""
    if sent.get("kind") != kind.kind:
        name = (sent.get("metadata") or {}).get("name", "")
        problem = refusals.wrong("kind", sent.get("kind", ""), f"must be {kind.kind}")
        raise refusals.invalid(sent.get("kind", ""), kind.group, name, [problem])
    version = sent.get("apiVersion", "")
    if version != kind.api_version:
        text = f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        raise refusals.bad_request(text)


def check_place(route: Route, sent: Json, *, named: bool, whole: bool = False) -> None:
    """Raise unless the object's name and namespace, if any, are those of the path.

    A `whole` object, which is not the result of a patch, must have a name.
    """
    meta = sent.get("metadata") or {}
    if not isinstance(meta, dict):
        return
    name, namespace = meta.get("name"), meta.get("namespace")
    if whole and not name:
        why = "name must be provided"
        raise refusals.bad_request(f"the name of the object ({route.name} based on URL) was undeterminable: {why}")
    if named and name and name != route.name:
        raise refusals.bad_request(f"the name of the object ({name}) does not match the name on the URL ({route.name})")
    if route.within and namespace and namespace != route.namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def unpatchable(sent: Any, why: str) -> ApiError:
    problem = refusals.wrong("patch", refusals.show(sent), why)
    return refusals.invalid("", "", "", [problem])
