"""The embedded API server as a function: method, path, query, headers and body in, a response out."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec

from haulout.embedded.face import access_reviews, discovery, openapi, responses
from haulout.embedded.face.admission import Admission, Attempt, Call, HookFailed
from haulout.embedded.face.patch_bodies import patcher
from haulout.embedded.face.read_handler import ReadHandler
from haulout.embedded.face.request import Request, read_deletion
from haulout.embedded.face.responses import Response
from haulout.embedded.face.routes import Route, parse_path
from haulout.embedded.face.write_handler import Steps, WriteHandler
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals
from haulout.embedded.store.kinds import Kind
from haulout.embedded.store.namespaces import finalize
from haulout.embedded.store.registry import check_update
from haulout.embedded.store.server import Server
from haulout.kube.errors import ApiError

_TRANSIENT = {(group, plural): kind for group, plural, kind, _ in discovery.TRANSIENT}


class Api:
    """The embedded API server as a function from requests to responses.

    `handle` returns a response at once, or an awaitable if an admission webhook must be called.
    """

    def __init__(self, server: Server, admission: Admission | None = None) -> None:
        self.server = server
        self.admission = admission or Admission(server)
        # The server address that discovery reports to clients.
        self.address = "embedded"
        # Whether objects note which client writes which field, as the real server does. A plan does without.
        self.notes_fields = False

    def handle(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Response | Awaitable[Response]:
        """Carry out one request. The names in `headers` are in lower case."""
        request = Request(method, path, query, headers, body, notes_fields=self.notes_fields)
        steps = _RequestHandler(self, request).steps()
        try:
            call = next(steps)
        except StopIteration as done:
            result: Response = done.value
            return result
        except ApiError as error:
            return responses.refuse(error, request.warnings)
        return self._ask(request, steps, call)

    async def _ask(self, request: Request, steps: Steps, call: Call) -> Response:
        while True:
            try:
                try:
                    response = await self.admission.send(call)
                except HookFailed as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(response)
            except StopIteration as done:
                result: Response = done.value
                return result
            except ApiError as error:
                return responses.refuse(error, request.warnings)


class _RequestHandler:
    """The handling of one request: it finds the kind and the verb, and carries the request out."""

    def __init__(self, api: Api, request: Request) -> None:
        self._api = api
        self._server = api.server
        self._request = request
        self._reads = ReadHandler(api.server, request)
        self._writes = WriteHandler(api.server, api.admission, request)

    def steps(self) -> Steps:
        route = parse_path(self._request.path)
        kind = self._server.catalog.get(route.resource) if route else None
        if self._request.path == "/openapi/v2" and openapi.V2_ACCEPTED in self._request.accept:
            # This is the only response in protobuf, so its form is not negotiated.
            return Response(200, openapi.v2_protobuf(), openapi.V2_PROTOBUF)
        self._request.negotiate(custom=kind is not None and kind.custom)
        if route is None:
            return self._elsewhere()
        if transient := _TRANSIENT.get((route.resource.group, route.resource.plural)):
            return self._transient(route, transient)
        if (
            kind is None
            or (route.within and not kind.namespaced)
            or (route.name and kind.namespaced is not route.within)
        ):
            return self._nowhere(route.resource.group)
        if kind.deprecation:
            self._request.warnings.append(kind.deprecation)
        if route.subresource:
            return (yield from self._subresource(kind, route))
        if not route.name:
            return (yield from self._collection(kind, route))
        match self._request.method:
            case "GET" | "HEAD":
                return self._reads.get(kind, route)
            case "PUT":
                return (yield from self._writes.put(kind, route, ""))
            case "PATCH":
                return (yield from self._writes.patch(kind, route, ""))
            case "DELETE":
                return (yield from self._writes.delete(kind, route))
            case "POST" if kind.custom:
                # As the real handler of custom kinds, which ignores the name in the path.
                return (yield from self._writes.post(kind, route))
        raise refusals.no_such_method()

    def _nowhere(self, group: str) -> Response:
        """Return the 404 of an unknown path. Built-in groups send a Status, others plain text."""
        if group in discovery.BUILT_IN_GROUPS:
            raise refusals.no_such_resource()
        return responses.text(404, "404 page not found\n")

    def _collection(self, kind: Kind, route: Route) -> Steps:
        match self._request.method:
            case "GET" | "HEAD":
                return self._reads.list_or_watch(kind, route)
            case "POST" if route.within is kind.namespaced:
                return (yield from self._writes.post(kind, route))
            case "DELETE" if route.within is kind.namespaced and "deletecollection" in kind.verbs:
                return (yield from self._writes.delete_all(kind, route))
            case "PUT" | "PATCH" if kind.custom:
                raise refusals.bad_request("name must be provided")
        raise refusals.no_such_method()

    def _subresource(self, kind: Kind, route: Route) -> Steps:
        method, core = self._request.method, not kind.group
        match route.subresource:
            case "status" if kind.has_status:
                if method == "PUT":
                    return (yield from self._writes.put(kind, route, "status"))
                if method == "PATCH":
                    return (yield from self._writes.patch(kind, route, "status"))
                if method == "GET":
                    return self._reads.get(kind, route)
            case "scale" if kind.has_scale:
                return self._scale(kind, route)
            case "eviction" if core and kind.plural == "pods":
                if method == "POST":
                    return (yield from self._evict(kind, route))
            case "binding" if core and kind.plural == "pods":
                if method == "POST":
                    return self._bind(route, self._request.value("Binding", "Binding"))
            case "finalize" if core and kind.plural == "namespaces":
                if method == "PUT":
                    return self._finalize(kind, route)
            case _ if kind.custom:
                raise refusals.not_found(kind.plural, kind.group, route.name)
            case _:
                raise refusals.no_such_resource()
        raise refusals.no_such_method()

    def _scale(self, kind: Kind, route: Route) -> Response:
        request, scales = self._request, self._server.scales
        if request.method not in {"GET", "PUT", "PATCH"}:
            raise refusals.no_such_method()
        old = self._server.existing(kind, route.namespace, route.name)
        match request.method:
            case "GET":
                return responses.respond(200, scales.get(kind, old, strict=kind.custom), request.plain)
            case "PUT":
                sent = request.value("Scale", "autoscaling.Scale")
            case _:
                apply = patcher(request.content_type, "autoscaling.Scale")(request.body)
                sent = apply(scales.get(kind, old))
        dry = request.write_options("UpdateOptions")
        return responses.respond(200, scales.replace(kind, old, sent, dry_run=dry), request.plain)

    def _evict(self, kind: Kind, route: Route) -> Steps:
        dry = self._request.write_options("CreateOptions")
        sent = self._request.value("Eviction", "policy.Eviction")
        sent_kind = sent.get("kind", "Eviction")
        if sent_kind != "Eviction":
            why = f"converting (v1.{sent_kind}) to (policy.Eviction): unknown conversion"
            raise refusals.bad_request(f'{sent_kind} in version "v1" cannot be handled as a Eviction: {why}')
        if (sent.get("metadata") or {}).get("name") != route.name:
            raise refusals.bad_request("name in URL does not match name in Eviction object")
        asked = read_deletion(sent.get("deleteOptions") or {})
        asked = msgspec.structs.replace(asked, dry_run=asked.dry_run or dry)
        attempt = Attempt(kind, "CREATE", "eviction", route.namespace, route.name, asked.dry_run)
        review = {"apiVersion": "policy/v1", "kind": "Eviction", **sent}
        yield from self._api.admission.validate(attempt, review, None, self._request.warnings)
        self._server.evictions.evict(route.namespace, route.name, asked)
        return self._done()

    def _bind(self, route: Route, binding: Any) -> Response:
        dry = self._request.write_options("CreateOptions")
        self._server.bind(route.namespace, route.name, binding, dry_run=dry)
        return self._done()

    def _done(self) -> Response:
        done = {**refusals.success(), "code": 201}
        return responses.respond(201, done, self._request.plain, self._request.warnings)

    def _finalize(self, kind: Kind, route: Route) -> Response:
        sent = self._request.obj(kind, self._server.catalog)
        old = self._server.existing(kind, "", route.name)
        check_update(kind, old, sent, whole=True)
        finalizers = (sent.get("spec") or {}).get("finalizers") or []
        return self._reads.one(200, kind, finalize(self._server, old, finalizers))

    def _transient(self, route: Route, kind: str) -> Response:
        """Answer a kind that is created but never stored, such as an access review or a binding."""
        if self._request.method != "POST":
            raise refusals.no_such_method()
        sent = self._request.value(kind, kind if kind == "Binding" else f"authorization.{kind}")
        if kind == "Binding":
            return self._bind(route._replace(name=(sent.get("metadata") or {}).get("name", "")), sent)
        return responses.respond(201, access_reviews.review(kind, sent.get("spec") or {}), self._request.plain)

    def _elsewhere(self) -> Response:
        """Answer a path that addresses no object: health, version, discovery, OpenAPI."""
        parts = self._request.path.strip("/").split("/")
        if self._request.method not in {"GET", "HEAD"}:
            raise refusals.no_such_method()
        if parts[0] in {"healthz", "readyz", "livez"}:
            return responses.text(200, "ok")
        if parts in (["api"], ["apis"]) and self._request.form.shape == "discovery":
            found = discovery.aggregated_discovery(self._server.catalog, core=parts == ["api"])
            return Response(200, msgspec.json.encode(found), responses.DISCOVERY_V2)
        value = self._described(parts)
        if value is None:
            return self._nowhere({"api": "", "apis": "".join(parts[1:2])}.get(parts[0], parts[0]))
        if parts == ["openapi", "v3"]:
            # The real server calls this plain text, although it is JSON.
            return responses.text(200, msgspec.json.encode(value).decode())
        return responses.respond(200, value, self._request.plain)

    def _described(self, parts: list[str]) -> Json | None:
        catalog = self._server.catalog
        match parts:
            case ["version"]:
                return discovery.VERSION
            case ["api"]:
                return discovery.core_versions(self._api.address)
            case ["apis"]:
                return discovery.group_list(catalog)
            case ["apis", name]:
                found = discovery.group(catalog, name)
                return found and {"kind": "APIGroup", "apiVersion": "v1", **found}
            case ["api", version]:
                return discovery.resource_list(catalog, "", version)
            case ["apis", name, version]:
                return discovery.resource_list(catalog, name, version)
            case ["openapi", "v2"]:
                return openapi.V2
            case ["openapi", "v3"]:
                return openapi.index(catalog)
            case ["openapi", "v3", "api", version]:
                return openapi.document(catalog, "", version)
            case ["openapi", "v3", "apis", name, version]:
                return openapi.document(catalog, name, version)
        return None
