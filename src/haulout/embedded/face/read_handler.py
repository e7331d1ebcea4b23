"""The handler of requests that read: get, list and watch, in the form that the client accepts."""

from __future__ import annotations

from collections.abc import Callable

from haulout.embedded.face import responses
from haulout.embedded.face.list_options import ListOptions, read_list_options, read_version
from haulout.embedded.face.pages import page
from haulout.embedded.face.printing.tables import metadata_only, table
from haulout.embedded.face.request import Request
from haulout.embedded.face.responses import Response
from haulout.embedded.face.routes import Route
from haulout.embedded.face.watches import Watch, open_watch
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals
from haulout.embedded.rules.refusals import wrong
from haulout.embedded.store.kinds import Kind
from haulout.embedded.store.selectors import Filter, make_filter
from haulout.embedded.store.server import Server
from haulout.kube.errors import ApiError


class ReadHandler:
    """The handler of one request that reads: get, list or watch, as JSON objects or as Tables for kubectl."""

    def __init__(self, server: Server, request: Request) -> None:
        self._server = server
        self._request = request

    def get(self, kind: Kind, route: Route) -> Response:
        wanted = read_version(self._request.query.get("resourceVersion", ""))
        if wanted > self._server.storage.revision:
            raise refusals.too_large(wanted, self._server.storage.revision)
        return self.one(200, kind, self._server.existing(kind, route.namespace, route.name))

    def list_or_watch(self, kind: Kind, route: Route) -> Response:
        wanted, chosen = read_list_options(self._request.query), self.chosen(kind)
        if wanted.watch:
            return self._watch(kind, route, chosen, wanted)
        found = page(self._server.storage, self._server.registry.table(kind), route.namespace, chosen, wanted)
        meta: Json = {"resourceVersion": str(found.revision)}
        if found.next:
            meta["continue"] = found.next
        if found.remaining is not None:
            meta["remainingItemCount"] = found.remaining
        return self.many(kind, found.items, meta)

    def chosen(self, kind: Kind) -> Filter:
        query = self._request.query
        return make_filter(kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))

    def one(self, status: int, kind: Kind, obj: Json) -> Response:
        match self._request.form.shape:
            case "table":
                value = self._table(kind, [obj])
                value["metadata"] = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            case "metadata":
                value = metadata_only(obj)
            case "metadata list":
                raise _wrong_shape("PartialObjectMetadataList", "not a list", kind, "")
            case _:
                value = self._server.show(kind, obj)
        return responses.respond(status, value, self._request.form, self._request.warnings)

    def many(self, kind: Kind, objects: list[Json], meta: Json) -> Response:
        match self._request.form.shape:
            case "table":
                value = {**self._table(kind, objects), "metadata": meta}
            case "metadata":
                raise _wrong_shape("PartialObjectMetadata", "a list", kind, "List")
            case "metadata list":
                value = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
                value["items"] = [metadata_only(obj) for obj in objects]
            case _:
                value = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": meta}
                if kind.custom:
                    value["metadata"] = {"continue": "", **meta}
                items = [self._server.show(kind, obj) for obj in objects]
                value["items"] = items if kind.custom else [_bare(obj) for obj in items]
        return responses.respond(200, value, self._request.form, self._request.warnings)

    def _table(self, kind: Kind, objects: list[Json], *, headed: bool = True) -> Json:
        include = self._request.query.get("includeObject", "")
        if include not in {"", "Metadata", "Object", "None"}:
            problem = wrong("includeObject", include, "must be 'Metadata', 'Object', 'None', or empty")
            raise refusals.bad_request(f"Unable to convert to Table as requested: {problem}")
        return table(kind, objects, self._server.timers.now(), include=include, headed=headed)

    def _watch(self, kind: Kind, route: Route, chosen: Filter, wanted: ListOptions) -> Response:
        watch = Watch(self._in_watch(kind), kind, chosen, route.namespace)
        server = self._server
        open_watch(server.storage, server.timers, server.registry.table(kind), watch, route.namespace, chosen, wanted)
        return Response(200, watch=watch)

    def _in_watch(self, kind: Kind) -> Callable[[Json], Json]:
        headed = True

        def as_table(obj: Json) -> Json:
            nonlocal headed
            result = self._table(kind, [obj], headed=headed)
            result["metadata"] = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            headed = False
            return result

        match self._request.form.shape:
            case "table":
                return as_table
            case "metadata" | "metadata list":
                return metadata_only
        return lambda obj: self._server.show(kind, obj)


def _wrong_shape(asked: str, is_what: str, kind: Kind, suffix: str) -> ApiError:
    package, name = kind.group.partition(".")[0] or "core", kind.kind
    if kind.custom:
        package, name = "unstructured", "Unstructured"
    text = f"you requested {asked}, but the requested object is {is_what} (*{package}.{name}{suffix})"
    return refusals.refusal(406, "NotAcceptable", text)


def _bare(obj: Json) -> Json:
    """Return an item of a list without apiVersion and kind, as lists of built-in kinds have them."""
    return {name: value for name, value in obj.items() if name not in {"apiVersion", "kind"}}
