"""The handler of requests that write: create, replace, patch and delete, with admission webhooks in between."""

from __future__ import annotations

from collections.abc import Generator

from haulout.embedded.face import responses
from haulout.embedded.face.admission import Admission, Attempt, Call
from haulout.embedded.face.list_options import read_list_options
from haulout.embedded.face.pages import page
from haulout.embedded.face.patch_bodies import configuration, patcher
from haulout.embedded.face.read_handler import ReadHandler
from haulout.embedded.face.request import Request, check_custom, check_place, strange_kind, unpatchable
from haulout.embedded.face.responses import Response
from haulout.embedded.face.routes import Route
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals
from haulout.embedded.rules.fields import Misfit, unknown_fields
from haulout.embedded.store import crds
from haulout.embedded.store.field_managers import Ledger, Writer, edited_managers
from haulout.embedded.store.kinds import Kind
from haulout.embedded.store.registry import Deletion, check_update
from haulout.embedded.store.server import Server, misfit, unreadable

# A write yields each webhook call and is sent its response. Without webhooks it never yields.
Steps = Generator[Call, Json, Response]

# How often a write is tried if other clients change the object meanwhile. The number is the real server's.
_ATTEMPTS = 5
_ORPHANS = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"


class WriteHandler:
    """The handler of one request that writes: create, replace, patch or delete, with admission webhooks."""

    def __init__(self, server: Server, admission: Admission, request: Request) -> None:
        self._server = server
        self._admission = admission
        self._request = request
        self._reads = ReadHandler(server, request)

    def post(self, kind: Kind, route: Route) -> Steps:
        dry = self._request.write_options("CreateOptions")
        sent = self._request.obj(kind, self._server.catalog)
        check_place(route, sent, named=False)
        return (yield from self._create(kind, route, sent, dry=dry))

    def _create(self, kind: Kind, route: Route, sent: Json, *, dry: bool, is_apply: bool = False) -> Steps:
        unknown: list[str] = []
        draft = self._server.begin(kind, route.namespace, sent, unknown)
        self._request.judge_unknown(kind, sent, unknown)
        attempt = Attempt(kind, "CREATE", "", route.namespace, draft["metadata"].get("name", ""), dry)
        changed = yield from self._admission.mutate(attempt, draft, None, self._request.warnings)
        if changed is not draft:
            draft = self._remade(kind, draft, changed)
        ready = self._server.registry.finish(kind, draft)
        yield from self._admission.validate(attempt, ready, None, self._request.warnings)
        managed = None
        if is_apply:
            managed = self._ledger(kind, "", "Apply").first_applied(sent)
        elif self._request.notes_fields:
            managed = self._ledger(kind).updated(None, self._server.show(kind, ready))
        stored = self._server.store(kind, ready, manager=self._request.manager, dry_run=dry, managed=managed)
        self._note(kind, stored)
        return self._reads.one(201, kind, stored)

    def _ledger(self, kind: Kind, subresource: str = "", operation: str = "Update") -> Ledger:
        writer = Writer(self._request.manager, operation, kind.api_version, subresource)
        return Ledger(kind, writer, self._server.registry.stamp())

    def _remade(self, kind: Kind, draft: Json, changed: Json) -> Json:
        """Return a new object that a mutating webhook has changed, decoded and completed again. It keeps its UID."""
        sent = self._server.show(kind, changed)
        try:
            again = self._server.registry.merge(kind, draft, sent, [])
        except Misfit:
            raise unreadable(kind, misfit(kind, sent)) from None
        again["metadata"] = {**again["metadata"]}
        for member in ("uid", "creationTimestamp", "namespace"):
            if member in draft["metadata"]:
                again["metadata"][member] = draft["metadata"][member]
        return again

    def put(self, kind: Kind, route: Route, subresource: str) -> Steps:
        dry = self._request.write_options("UpdateOptions")
        sent = self._request.obj(kind, self._server.catalog)
        check_place(route, sent, named=True, whole=True)
        missing = self._server.registry.table(kind).get(route.namespace, route.name) is None
        if missing and kind.create_on_update and not subresource:
            meta = {name: value for name, value in sent["metadata"].items() if name != "resourceVersion"}
            return (yield from self._create(kind, route, {**sent, "metadata": meta}, dry=dry))
        for _ in range(_ATTEMPTS):
            old = self._server.existing(kind, route.namespace, route.name)
            check_update(kind, old, sent, whole=True)
            unknown: list[str] = []
            draft = self._server.merged(kind, old, sent, unknown)
            self._request.judge_unknown(kind, sent, unknown)
            done = yield from self._change(kind, route, old, draft, subresource, dry=dry)
            if done is not None:
                return done
        raise refusals.conflict(kind.plural, kind.group, route.name)

    def apply(self, kind: Kind, route: Route, subresource: str) -> Steps:
        """Carry out a server-side apply. It creates an object that is not there."""
        dry = self._request.write_options("PatchOptions")
        config = configuration(self._request.body)
        self._check_configuration(kind, route, config)
        if self._server.registry.table(kind).get(route.namespace, route.name) is None and not subresource:
            meta = config.get("metadata") or {}
            if meta.get("uid"):
                why = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
                raise refusals.conflict(kind.plural, kind.group, route.name, why)
            meta = {name: part for name, part in meta.items() if name != "resourceVersion"}
            named = {**config, "metadata": {**meta, "name": route.name}}
            return (yield from self._create(kind, route, named, dry=dry, is_apply=True))
        for _ in range(_ATTEMPTS):
            old = self._server.existing(kind, route.namespace, route.name)
            check_update(kind, old, config, whole=False)
            ledger = self._ledger(kind, subresource, "Apply")
            sent, managed = ledger.applied(self._server.show(kind, old), config, is_forced=self._request.is_forced)
            done = yield from self._patched(kind, route, old, sent, subresource, dry=dry, managed=managed)
            if done is not None:
                return done
        raise refusals.conflict(kind.plural, kind.group, route.name)

    def _check_configuration(self, kind: Kind, route: Route, config: Json) -> None:
        version, name = config.get("apiVersion") or "", config.get("kind") or ""
        if (version, name) != (kind.api_version, kind.kind):
            text = version if "/" in version else f"/{version}"
            raise refusals.bad_request(f"invalid object type: {text}, Kind={name}")
        check_place(route, config, named=True, whole=True)
        if kind.type and (unknown := unknown_fields(kind.type, config)):
            where = f"{(config.get('metadata') or {}).get('namespace', '')}/{route.name}; {kind.group}/{kind.version}"
            why = f".{unknown[0]}: field not declared in schema"
            raise refusals.unclassified_error(f"failed to create typed patch object ({where}, Kind={kind.kind}): {why}")

    def patch(self, kind: Kind, route: Route, subresource: str) -> Steps:
        if self._request.is_apply:
            return (yield from self.apply(kind, route, subresource))
        read = patcher(self._request.content_type, kind.type)
        dry = self._request.write_options("PatchOptions")
        self._server.existing(kind, route.namespace, route.name)
        apply = read(self._request.body)
        for _ in range(_ATTEMPTS):
            old = self._server.existing(kind, route.namespace, route.name)
            sent = apply(self._server.show(kind, old))
            if not isinstance(sent, dict):
                raise unpatchable(sent, "the patch leaves no object")
            check_place(route, sent, named=True)
            if kind.custom:
                check_custom(kind, sent)
            elif why := strange_kind(kind, sent, self._server.catalog):
                raise unpatchable(sent, why)
            check_update(kind, old, sent, whole=False)
            done = yield from self._patched(kind, route, old, sent, subresource, dry=dry)
            if done is not None:
                return done
        raise refusals.conflict(kind.plural, kind.group, route.name)

    def _patched(
        self,
        kind: Kind,
        route: Route,
        old: Json,
        sent: Json,
        subresource: str,
        *,
        dry: bool,
        managed: list[Json] | None = None,
    ) -> Generator[Call, Json, Response | None]:
        """Store what a patch has made of an object, and return the response as `_change` does."""
        unknown: list[str] = []
        try:
            draft = self._server.registry.merge(kind, old, sent, unknown)
        except Misfit:
            raise unpatchable(sent, misfit(kind, sent)) from None
        self._request.judge_unknown(kind, sent, unknown, patched=True)
        if managed is None and self._request.notes_fields:
            managed = edited_managers(self._server.show(kind, old), sent)
        return (yield from self._change(kind, route, old, draft, subresource, dry=dry, managed=managed))

    def _change(
        self,
        kind: Kind,
        route: Route,
        old: Json,
        draft: Json,
        subresource: str,
        *,
        dry: bool,
        managed: list[Json] | None = None,
    ) -> Generator[Call, Json, Response | None]:
        """Store a changed object and return the response; None if the object changed while a webhook was called.

        `managed`: the managers of its fields. None: the client is noted for what it has changed.
        """
        attempt = Attempt(kind, "UPDATE", subresource, route.namespace, route.name, dry)
        changed = yield from self._admission.mutate(attempt, draft, old, self._request.warnings)
        if changed is not draft:
            draft = self._server.merged(kind, old, self._server.show(kind, changed), [])
        revised = self._server.registry.revise(kind, old, draft, subresource=subresource)
        yield from self._admission.validate(attempt, revised, old, self._request.warnings)
        if self._server.registry.table(kind).get(route.namespace, route.name) is not old:
            return None
        if managed is None and self._request.notes_fields and old["metadata"].get("managedFields"):
            before, after = self._server.show(kind, old), self._server.show(kind, revised)
            managed = self._ledger(kind, subresource).updated(before, after)
        result = self._server.put(kind, old, revised, manager=self._request.manager, dry_run=dry, managed=managed)
        self._note(kind, result)
        return self._reads.one(200, kind, result)

    def delete(self, kind: Kind, route: Route) -> Steps:
        deletion = self._deletion(kind)
        old = self._server.existing(kind, route.namespace, route.name)
        attempt = Attempt(kind, "DELETE", "", route.namespace, route.name, deletion.dry_run)
        yield from self._admission.validate(attempt, None, old, self._request.warnings)
        obj, is_gone = self._server.remove(kind, self._server.existing(kind, route.namespace, route.name), deletion)
        if is_gone and not kind.returns_deleted:
            meta = obj["metadata"]
            done = refusals.success(kind.plural, kind.group, meta["name"], meta["uid"])
            return responses.respond(200, done, self._request.plain, self._request.warnings)
        return self._reads.one(200, kind, obj)

    def _deletion(self, kind: Kind) -> Deletion:
        deletion = self._request.deletion()
        if kind.propagation == "Orphan" and deletion.propagation is None and deletion.orphan is None:
            self._request.warnings.append(_ORPHANS)
        return deletion

    def delete_all(self, kind: Kind, route: Route) -> Steps:
        deletion, table = self._deletion(kind), self._server.registry.table(kind)
        options = read_list_options({name: value for name, value in self._request.query.items() if name != "watch"})
        found = page(self._server.storage, table, route.namespace, self._reads.chosen(kind), options)
        deleted = []
        for obj in found.items:
            namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
            # The request names a collection and no object, so the review has no name either.
            attempt = Attempt(kind, "DELETE", "", namespace, "", deletion.dry_run)
            yield from self._admission.validate(attempt, None, obj, self._request.warnings)
            current = table.get(namespace, name)
            if current is not None:
                deleted.append(self._server.remove(kind, current, deletion)[0])
        return self._reads.many(kind, deleted, {"resourceVersion": str(found.revision)})

    def _note(self, kind: Kind, obj: Json) -> None:
        """Add the warnings that the server gives for an object that it accepts."""
        if kind is crds.DEFINITION:
            self._request.warnings += crds.warnings(obj)
        if kind.custom:
            self._request.warnings += [
                f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers'
                for name in obj["metadata"].get("finalizers", ())
                if "/" not in name and name not in {"orphan", "foregroundDeletion"}
            ]
