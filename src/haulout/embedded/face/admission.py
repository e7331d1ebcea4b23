"""Admission webhooks: which of them review a write, what they are sent, and what their responses change.

Only writes of clients are reviewed. The simulated controllers are part of the control plane and are not.
CEL match conditions are not evaluated, and no webhook is reinvoked.
"""

from __future__ import annotations

import base64
import binascii
import itertools
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from haulout.base.patch import PatchFailed
from haulout.embedded.interfaces import Json, Resource
from haulout.embedded.rules import refusals
from haulout.embedded.store.kinds import Kind
from haulout.embedded.store.patches import apply_operations
from haulout.embedded.store.selectors import compile_selector
from haulout.kube.errors import ApiError

if TYPE_CHECKING:
    from haulout.embedded.store.server import Server

# Takes an AdmissionReview and answers with one.
Handler = Callable[[Json], Awaitable[Json]]
# Sends a review to the webhook of this client configuration, within so many seconds.
Post = Callable[[Json, Json, float], Awaitable[Json]]

_GROUP = "admissionregistration.k8s.io"
_MUTATING = Resource(_GROUP, "v1", "mutatingwebhookconfigurations")
_VALIDATING = Resource(_GROUP, "v1", "validatingwebhookconfigurations")
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class HookFailed(Exception):
    """A webhook could not be reached, or did not respond with an AdmissionReview."""


class HookAbsent(HookFailed):
    """Nothing serves the webhook: the pods behind its Service are simulated, and no process on this computer stands in."""


class Attempt(msgspec.Struct, frozen=True):
    """A write that admission webhooks review."""

    kind: Kind
    operation: str
    subresource: str
    namespace: str
    name: str
    dry_run: bool


class Call(msgspec.Struct, frozen=True):
    """One call of a webhook: its configuration and the AdmissionReview that it is sent."""

    webhook: Json
    review: Json


class Admission:
    """The admission webhooks of the embedded cluster: it finds and calls those that review a write.

    `handlers`: functions that respond in place of webhooks, by webhook name and without any socket.
    `post`: sends the review to every other webhook.
    """

    def __init__(
        self, server: Server, *, handlers: Mapping[str, Handler] | None = None, post: Post | None = None
    ) -> None:
        self._server = server
        self._handlers = dict(handlers or {})
        self._post = post
        self._count = itertools.count(1)

    def register(self, name: str, handler: Handler) -> None:
        self._handlers[name] = handler

    async def send(self, call: Call) -> Json:
        """Return the response of one webhook. Raises `HookFailed`."""
        name = call.webhook["name"]
        handler = self._handlers.get(name)
        if handler is not None:
            answer = await handler(call.review)
        elif self._post is not None:
            answer = await self._post(call.webhook["clientConfig"], call.review, call.webhook["timeoutSeconds"])
        else:
            raise HookFailed("no handler is registered under this name, and there is no network")
        response = answer.get("response")
        if not isinstance(response, dict):
            raise HookFailed("webhook response was absent")
        if response.get("uid") != call.review["request"]["uid"]:
            uid, answered_uid = call.review["request"]["uid"], response.get("uid", "")
            raise HookFailed(f'expected response.uid="{uid}", got "{answered_uid}"')
        return response

    def mutate(self, attempt: Attempt, obj: Json, old: Json | None, warnings: list[str]) -> Generator[Call, Json, Json]:
        """Return the object as the mutating webhooks change it; the same object if they change nothing."""
        for webhook, seen in self._interested(_MUTATING, attempt, obj, old):
            response = yield from self._asked(webhook, seen, attempt, obj, old, warnings)
            if response is not None and response.get("patch"):
                obj = _patched(webhook["name"], obj, response)
        return obj

    def validate(
        self, attempt: Attempt, obj: Json | None, old: Json | None, warnings: list[str]
    ) -> Generator[Call, Json, None]:
        """Raise the refusal of the first validating webhook that denies the write."""
        for webhook, seen in self._interested(_VALIDATING, attempt, obj, old):
            yield from self._asked(webhook, seen, attempt, obj, old, warnings)

    def _asked(
        self, webhook: Json, seen: Kind, attempt: Attempt, obj: Json | None, old: Json | None, warnings: list[str]
    ) -> Generator[Call, Json, Json | None]:
        name = webhook["name"]
        try:
            response = yield Call(webhook, self._review(seen, attempt, obj, old))
        except HookAbsent as error:
            # Whatever the failure policy says: the webhook's pods are only simulated, so nothing could ever be written.
            warnings.append(f'webhook "{name}" was not called: {error}')
            return None
        except HookFailed as error:
            if webhook["failurePolicy"] == "Ignore":
                return None
            raise refusals.internal(f'failed calling webhook "{name}": failed to call webhook: {error}') from None
        warnings += response.get("warnings", ())
        if not response.get("allowed"):
            raise _denied(name, response.get("status") or {})
        return response

    def _interested(
        self, configurations: Resource, attempt: Attempt, obj: Json | None, old: Json | None
    ) -> list[tuple[Json, Kind]]:
        """Return the webhooks that review the write, by configuration name, each with the version that it expects."""
        table = self._server.storage.table(f"{configurations.plural}.{_GROUP}")
        if not len(table) or attempt.kind.group == _GROUP:
            return []
        found = []
        for configuration in table.items():
            for webhook in configuration.get("webhooks", ()):
                seen = self._seen_as(webhook, attempt)
                if seen is not None and self._selects(webhook, attempt, obj, old):
                    found.append((webhook, seen))
        return found

    def _seen_as(self, webhook: Json, attempt: Attempt) -> Kind | None:
        kinds = [attempt.kind]
        if webhook["matchPolicy"] == "Equivalent":
            kinds += [
                k for k in self._server.catalog if k.table_name == attempt.kind.table_name and k is not attempt.kind
            ]
        for kind in kinds:
            if any(_rule_matches(rule, kind, attempt) for rule in webhook.get("rules", ())):
                return kind
        return None

    def _selects(self, webhook: Json, attempt: Attempt, obj: Json | None, old: Json | None) -> bool:
        labels: Mapping[str, str] | None = {}
        if attempt.kind.namespaced:
            namespace = self._server.storage.table("namespaces").get("", attempt.namespace)
            labels = namespace["metadata"].get("labels", {}) if namespace else {}
        elif attempt.kind.kind == "Namespace":
            labels = ((obj or old or {}).get("metadata") or {}).get("labels", {})
        elif not attempt.kind.namespaced:
            labels = None
        wanted = compile_selector(webhook["namespaceSelector"])
        if labels is not None and wanted is not None and not wanted.matches(labels):
            return False
        chosen = compile_selector(webhook["objectSelector"])
        return chosen is None or any(
            chosen.matches((each.get("metadata") or {}).get("labels") or {}) for each in (obj, old) if each is not None
        )

    def _review(self, seen: Kind, attempt: Attempt, obj: Json | None, old: Json | None) -> Json:
        kind = attempt.kind

        def as_seen(value: Json | None) -> Json | None:
            if value is None or attempt.subresource == "eviction":
                return value
            return value if seen.to_wire is None else seen.to_wire(value)

        eviction = attempt.subresource == "eviction"
        own = {"group": "policy", "version": "v1", "kind": "Eviction"} if eviction else _group_kind(kind)
        request: Json = {
            "uid": f"00000000-0000-4000-8000-{next(self._count):012x}",
            "kind": own if eviction else _group_kind(seen),
            "resource": _group_resource(seen),
            "requestKind": own,
            "requestResource": _group_resource(kind),
            **({"name": attempt.name} if attempt.name else {}),
            "namespace": attempt.namespace,
            "operation": attempt.operation,
            "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
            "object": as_seen(obj),
            "oldObject": as_seen(old),
            "dryRun": attempt.dry_run,
            "options": {"kind": _OPTIONS[attempt.operation], "apiVersion": "meta.k8s.io/v1"},
        }
        if attempt.subresource:
            request["subResource"] = request["requestSubResource"] = attempt.subresource
        if not attempt.namespace:
            del request["namespace"]
        return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _group_kind(kind: Kind) -> Json:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _group_resource(kind: Kind) -> Json:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def _rule_matches(rule: Json, kind: Kind, attempt: Attempt) -> bool:
    def holds(member: str, value: str) -> bool:
        wanted = rule.get(member) or ()
        return "*" in wanted or value in wanted

    if not (
        holds("operations", attempt.operation) and holds("apiGroups", kind.group) and holds("apiVersions", kind.version)
    ):
        return False
    if rule["scope"] not in {"*", "Namespaced" if kind.namespaced else "Cluster"}:
        return False
    for wanted in rule.get("resources") or ():
        resource, _, subresource = wanted.partition("/")
        if resource in {"*", kind.plural} and (
            subresource == attempt.subresource or wanted == "*/*" or subresource == "*"
        ):
            return True
    return False


def _patched(name: str, obj: Json, response: Json) -> Json:
    try:
        operations = msgspec.json.decode(base64.b64decode(response["patch"]))
        changed: Any = apply_operations(obj, operations)
    except PatchFailed as error:
        raise refusals.internal(str(error)) from None
    except (binascii.Error, msgspec.DecodeError, TypeError) as error:
        raise refusals.internal(f'admission webhook "{name}": the patch cannot be applied: {error}') from None
    if not isinstance(changed, dict):
        raise refusals.internal(f'admission webhook "{name}": the patch leaves no object')
    return changed


def _denied(name: str, status: Json) -> ApiError:
    denied, message, reason = (
        f'admission webhook "{name}" denied the request',
        status.get("message"),
        status.get("reason"),
    )
    text = f"{denied}: {message or reason}" if message or reason else f"{denied} without explanation"
    code = status.get("code", 0)
    return refusals.refusal(max(code, 400), reason or "", text)
