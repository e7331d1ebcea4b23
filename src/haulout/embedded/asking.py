"""One request, and what stands in it: the object that was sent, options of the query and of deletions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from haulout.embedded import answers, refusals
from haulout.embedded.fields import diagnose, unknown_fields
from haulout.embedded.registry import Deletion
from haulout.embedded.resources import Kind
from haulout.embedded.routes import Route
from haulout.embedded.seams import Json
from haulout.embedded.server import unreadable
from haulout.kube.errors import ApiError

_PROPAGATIONS = ("Foreground", "Background", "Orphan")


class Request:
    """`headers` by their names in lower case. `warnings` grow while it is carried out."""

    def __init__(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.body = body
        self.content_type = headers.get("content-type", "")
        self.form = answers.negotiate(headers.get("accept", ""))
        self.warnings: list[str] = []

    @property
    def plain(self) -> answers.Form:
        """The form for what has no table."""
        return answers.Form(media=self.form.media)

    def value(self, kind: str, type_name: str) -> Any:
        """What was sent, whatever it is; `type_name` is the Go type where there is one."""
        return answers.read_body(self.body, self.content_type, kind, type_name)

    def patch(self) -> Any:
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            why = answers.go_error(self.body, error)
            raise refusals.bad_request(f"error decoding patch: {why}") from None

    def dry_run(self, options: str) -> bool:
        asked = self.query.get("dryRun", "")
        if asked not in {"", "All"}:
            problem = refusals.unsupported("dryRun", [asked], ("All",))
            raise refusals.invalid(options, "meta.k8s.io", "", [problem])
        return bool(asked)

    def field_validation(self, options: str) -> str:
        asked = self.query.get("fieldValidation", "")
        if asked not in {"", "Ignore", "Strict", "Warn"}:
            problem = refusals.unsupported("fieldValidation", asked, ("", "Ignore", "Strict", "Warn"))
            raise refusals.invalid(options, "meta.k8s.io", "", [problem])
        return asked or "Warn"

    def obj(self, kind: Kind, known: Iterable[Kind]) -> Json:
        """The object that was sent, of the right kind."""
        sent = self.value(kind.kind, kind.type)
        if kind.custom and (not isinstance(sent, dict) or not sent.get("kind")):
            text = self.body.decode(errors="replace")
            why = f"Object 'Kind' is missing in '{text}' ({text})"
            raise refusals.bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {why}")
        if not isinstance(sent, dict):
            raise unreadable(kind, diagnose(kind.type, sent))
        if kind.custom:
            check_custom(kind, sent)
            return sent
        given, version = sent.get("kind") or kind.kind, sent.get("apiVersion") or kind.api_version
        if given == kind.kind and version == kind.api_version:
            return sent
        why = f'no kind "{given}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        if any(each.kind == given and each.api_version == version for each in known):
            package = kind.group.partition(".")[0] or "core"
            why = f"converting (v1.{given}) to ({package}.{kind.kind}): unknown conversion"
        shown = str(version).rpartition("/")[2]
        raise refusals.bad_request(f'{given} in version "{shown}" cannot be handled as a {kind.kind}: {why}')

    def judge_unknown(self, kind: Kind, sent: Any, unknown: list[str], options: str, *, patched: bool = False) -> None:
        """Warns of unknown fields, or refuses them, as the query wants it."""
        if not unknown:
            return
        policy = self.field_validation(options)
        paths = unknown_fields(kind.type, sent) if kind.type else sorted(unknown)
        if policy == "Warn":
            self.warnings += [f'unknown field "{path}"' for path in paths]
        if policy == "Strict":
            found = ", ".join(f'unknown field "{path}"' for path in paths)
            why = f"strict decoding error: {found}"
            raise unpatchable(sent, why) if patched else unreadable(kind, why)

    def deletion(self) -> Deletion:
        sent = self.value("DeleteOptions", "meta.DeleteOptions") if self.body.strip() else {}
        if not isinstance(sent, dict):
            raise refusals.bad_request("the object provided is unrecognized (must be of type DeleteOptions)")
        return self.read_deletion(sent)

    def read_deletion(self, sent: Json) -> Deletion:
        """From DeleteOptions, and what the query adds to them."""
        conditions = sent.get("preconditions") or {}
        policy = sent.get("propagationPolicy") or self.query.get("propagationPolicy")
        if policy not in {None, *_PROPAGATIONS}:
            problem = refusals.unsupported("propagationPolicy", policy, (*_PROPAGATIONS, "nil"))
            raise refusals.invalid("DeleteOptions", "meta.k8s.io", "", [problem])
        orphan = sent.get("orphanDependents")
        if orphan is None and "orphanDependents" in self.query:
            orphan = self.query["orphanDependents"] == "true"
        dry = bool(sent.get("dryRun")) or self.dry_run("DeleteOptions")
        return Deletion(
            self._grace(sent), conditions.get("uid"), conditions.get("resourceVersion"), policy, orphan, dry
        )

    def _grace(self, sent: Json) -> int | None:
        given = sent.get("gracePeriodSeconds", self.query.get("gracePeriodSeconds"))
        if given is None:
            return None
        try:
            return int(given)
        except (TypeError, ValueError):
            raise refusals.bad_request(f'strconv.ParseInt: parsing "{given}": invalid syntax') from None


def check_custom(kind: Kind, sent: Json) -> None:
    """Custom objects say of which kind they are."""
    if sent.get("kind") != kind.kind:
        name = (sent.get("metadata") or {}).get("name", "")
        problem = refusals.wrong("kind", sent.get("kind", ""), f"must be {kind.kind}")
        raise refusals.invalid(sent.get("kind", ""), kind.group, name, [problem])
    version = sent.get("apiVersion", "")
    if version != kind.api_version:
        text = f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        raise refusals.bad_request(text)


def check_place(route: Route, sent: Json, *, named: bool) -> None:
    """The name and namespace in the object, where given, are those of the address."""
    meta = sent.get("metadata")
    if not isinstance(meta, dict):
        return
    name, namespace = meta.get("name"), meta.get("namespace")
    if named and name and name != route.name:
        raise refusals.bad_request(f"the name of the object ({name}) does not match the name on the URL ({route.name})")
    if route.within and namespace and namespace != route.namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def unpatchable(sent: Any, why: str) -> ApiError:
    problem = refusals.wrong("patch", refusals.show(sent), why)
    return refusals.invalid("", "", "", [problem])
