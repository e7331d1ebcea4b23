"""The console's API: from a request to the answer that its caller may see."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from aiohttp import web

from haulout.acts.answers import Offers, Problem
from haulout.acts.prepare import NOTHING, Target
from haulout.base.bounds import EARLIEST, LATEST
from haulout.base.clock import Clock
from haulout.base.number import digits
from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import NotListed
from haulout.console.acting import KEY_FORM, Acting, ActRequest, Reused
from haulout.console.assets import asset_of
from haulout.console.calendars import LONGEST, calendar_of
from haulout.console.callers import BELIEVED_FOR, LOCAL, Caller, Door, LocalDoor, Question, Unknown, matches
from haulout.console.documents import Login, NodePage, WhoAmI
from haulout.console.encoding import encode
from haulout.console.forecasts import Crowded, ForecastBegun, ForecastRequest, Forecasts
from haulout.console.node_page import NotFollowed, explained_node, explained_object, pods_of
from haulout.console.operations import OPERATIONS
from haulout.console.page_headers import HEADERS
from haulout.console.picture import Picture
from haulout.console.problems import Refused, missing_right
from haulout.console.records import POSITION_FORM, Records, Wanted
from haulout.console.same_site import check_host, check_site
from haulout.console.sight import (
    BUDGETS,
    NODES,
    PDBS,
    PODS,
    RECORDS,
    Sight,
    hidden_pod,
    kind_questions,
    namespaces_in,
    visible_part,
    within,
)
from haulout.console.stranger_queue import QueueFull
from haulout.console.streams import Streams
from haulout.console.until_silence import UntilSilence
from haulout.console.watching import Watcher
from haulout.core.budgets.decisions import BUDGETS as BUDGETS_DECLARATION
from haulout.core.surface import Explained
from haulout.explain.budgets import explained_budget
from haulout.explain.kinds import NODE, kinds
from haulout.explain.operators import OperatorState, operator_state
from haulout.kernel.kernel import Kernel
from haulout.kube.errors import Forbidden, KubeError, NotFound
from haulout.kube.transport import Transport
from haulout.serve.connections import Phase
from haulout.serve.web import connection_of, send_pieces
from haulout.surfaces.registry import KERNEL

log = logging.getLogger("haulout.console")

API = "/api/v1/"
COOKIE = "haulout_session"
# A page hears something at least this often, so that it and the proxies between know that the stream is alive.
HEARD_EVERY = 15.0
# A page that does not read for this long loses its stream.
READ_WITHIN = 30.0
PAGE, MOST_PAGE = 100, 500
LONGEST_WORD = 512
MOST_BODY = 64 * 2**10
# The most namespaces of which the rights of one caller are asked for one answer.
MOST_NAMESPACES = 200

# The method of `Api` for each operation.
HANDLERS = {
    "fleet": "fleet",
    "stream": "stream",
    "causes": "part",
    "failures": "part",
    "budgets": "part",
    "rollouts": "part",
    "installation": "part",
    "works": "works",
    "node": "node",
    "explain": "explain",
    "explain_namespaced": "explain",
    "whoami": "whoami",
    "act": "act",
    "records": "records",
    "calendar": "calendar",
    "begin_forecast": "begin_forecast",
    "forecast": "forecast",
    "offers_of_all": "offers",
    "offers": "offers",
    "offers_namespaced": "offers",
}

Handler = Callable[[web.Request, Caller], Awaitable[web.StreamResponse]]


class Api:
    """The handlers of the console.

    `cluster`: the name of the cluster, for people. `hosts`: the values of Host that are answered; empty: all.
    `secret`: what a login at the local door has to know. `session`: what it gets.
    """

    def __init__(
        self,
        watcher: Watcher,
        streams: Streams,
        door: Door,
        acting: Acting,
        forecasts: Forecasts,
        transport: Transport,
        clock: Clock,
        *,
        cluster: str,
        hosts: frozenset[str] = frozenset(),
        secret: str = "",
        session: str = "",
    ) -> None:
        self._watcher = watcher
        self._streams = streams
        self._door = door
        self._acting = acting
        self._forecasts = forecasts
        self._records = Records(transport)
        self._transport = transport
        self._clock = clock
        self._cluster = cluster
        self.hosts = hosts
        self._secret = secret
        self._session = session
        # The rows of the last picture as JSON, by sight: most callers may see the same.
        self._encoded: dict[Sight, bytes] = {}
        self._encoded_seq = -1

    def app(self) -> web.Application:
        """Return the whole server: page, login and API, each behind the checks that it needs."""
        app = web.Application(client_max_size=MOST_BODY, middlewares=[self._checked])
        app.on_response_prepare.append(_with_headers)
        app.router.add_post(f"{API}login", self._login)
        for each in OPERATIONS:
            if each.name != "login":
                handler = self._known(getattr(self, HANDLERS[each.name]))
                app.router.add_route(each.method, f"{API}{each.path}", handler)
                if each.method == "GET":
                    # A stream has no end that could be left out.
                    app.router.add_head(f"{API}{each.path}", _no_head if each.name == "stream" else handler)
        app.router.add_get("/{path:.*}", self._page)
        return app

    # What comes before every handler

    @web.middleware
    async def _checked(self, request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            check_host(request, self.hosts)
            is_api = request.path.startswith(API) or f"{request.path}/" == API
            if is_api:
                if request.path != f"{API}login":
                    request["caller"] = await self._caller(request)
                check_site(request)
            answer: web.StreamResponse = await handler(request)
        except Refused as refused:
            return refused.response()
        except web.HTTPException as error:
            return _problem(error).response()
        except KubeError as error:
            return Refused("no-answer", f"the API server did not answer: {error}").response()
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            log.exception("request failed", extra={"path": request.path})
            return Refused("failed", "the console failed; its log says why").response()
        return answer

    async def _caller(self, request: web.Request) -> Caller:
        connection = connection_of(request)
        try:
            return await self._door.caller(request.headers, request.cookies, connection.peer if connection else "")
        except QueueFull as full:
            refused = Refused("too-many", "many tokens that are not known yet are being checked; try again in a moment")
            refused.headers = {"Retry-After": str(math.ceil(full.seconds))}
        except Unknown:
            refused = Refused(
                "not-logged-in",
                "open the address that the console printed"
                if self._door.name == LOCAL
                else "send `Authorization: Bearer TOKEN` with a valid token of this cluster",
            )
        raise refused

    def _known(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            self._watcher.look()
            return await handler(request, request["caller"])

        return answer

    # The page and the login

    async def _page(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/api/"):
            raise web.HTTPNotFound
        asset = asset_of(request.path)
        if asset is None:
            raise web.HTTPNotFound
        headers = {"Cache-Control": asset.cache}
        charset = "utf-8" if asset.content_type.startswith(("text/", "application/json", "image/svg")) else ""
        return await _send(
            request, asset.body, f"{asset.content_type}; charset={charset}" if charset else asset.content_type, headers
        )

    async def _login(self, request: web.Request) -> web.StreamResponse:
        if not self._secret:
            raise web.HTTPNotFound
        if not matches((await _body(request, Login)).secret, self._secret):
            raise Refused("wrong-secret", "this is not the secret that the console printed; it is new at each start")
        response = web.Response(status=204)
        response.set_cookie(COOKIE, self._session, httponly=True, samesite="Strict", path="/")
        return response

    # The answers

    async def fleet(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        await self._require(caller, NODES)
        picture = await self._watcher.current()
        sight = await self._sight(caller, picture)
        etag = f'"{self._watcher.epoch}-{picture.seq}{"" if sight.is_whole else f"-{hash(sight) & 0xFFFFFFFF:x}"}"'
        headers = {"ETag": etag, "Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers=headers)
        document = {
            "epoch": self._watcher.epoch,
            "seq": picture.seq,
            "at": self._watcher.known_at,
            "tables": visible_part(picture.tables, sight),
            "nodes": msgspec.Raw(self._rows(picture, sight)),
        }
        return await _send(request, msgspec.json.encode(document), "application/json", headers)

    def _rows(self, picture: Picture, sight: Sight) -> bytes:
        if picture.seq != self._encoded_seq:
            self._encoded, self._encoded_seq = {}, picture.seq
        if sight not in self._encoded:
            self._encoded[sight] = encode(tuple(picture.rows.values()), sight)
        return self._encoded[sight]

    async def part(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        name = request.path.removeprefix(API)
        await self._require(caller, BUDGETS if name == "budgets" else NODES)
        picture = await self._watcher.current()
        sight = await self._sight(caller, picture)
        return _json({name: getattr(picture, name)}, sight)

    async def works(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        await self._require(caller, NODES)
        picture = await self._watcher.current()
        start, limit = _page_of(request)
        found = picture.works[start : start + limit]
        rest = {"continue": str(start + limit)} if start + limit < len(picture.works) else {}
        return _json({"works": found, **rest}, await self._sight(caller, picture))

    async def stream(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        await self._require(caller, NODES)
        since = _number(request, "since")
        picture = await self._watcher.current()
        stream = self._streams.open(_name(caller), await self._sight(caller, picture), picture, since)
        response = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        response.content_type, response.charset = "text/event-stream", "utf-8"
        connection = connection_of(request)
        try:
            await response.prepare(request)
            if connection is not None:
                connection.enter(Phase.STREAM)
            proven_at = self._clock.monotonic()
            while not stream.ended:
                chunk = await stream.next(HEARD_EVERY)
                self._watcher.look()
                if self._clock.monotonic() - proven_at >= BELIEVED_FOR:
                    # The token and the rights are asked for again, because both may have ended meanwhile.
                    caller, proven_at = await self._caller(request), self._clock.monotonic()
                    await self._require(caller, NODES)
                    sight = await self._sight(caller, self._watcher.picture)
                    if sight != stream.sight:
                        stream.sight = sight
                        chunk = stream.begin_again(self._watcher.picture.seq)
                async with asyncio.timeout(READ_WITHIN):
                    await response.write(chunk)
                if connection is not None:
                    connection.progressed()
        except (Refused, KubeError):
            # The caller may not read any more, or that cannot be asked. The page connects again and is told why.
            log.info("stream ended: the caller's rights are not proven any more")
        except TimeoutError:
            if connection is not None:
                connection.abort()
        finally:
            self._streams.close(stream)
        return response

    async def records(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        await self._require(caller, RECORDS)
        words = {name: _word(request, name) for name in ("node", "surface", "outcome")}
        since, until = _instant_of(request, "from"), _instant_of(request, "to")
        after = _word(request, "continue")
        if after and not re.fullmatch(POSITION_FORM, after):
            raise Refused("malformed", "continue has to be what the last page said to continue with")
        wanted = Wanted(**words, since=since, until=until, after=after, limit=_limit(request))
        if self._watcher.is_silent:
            raise Refused("no-answer", f"the logbook cannot be read: {self._watcher.outage}")
        try:
            found, rest = await self._records.page(wanted)
        except Forbidden as error:
            raise Refused(
                "missing-right", f"the console itself may not read the logbook: {error}", **_right(RECORDS)
            ) from None
        return _json({"records": found, **({"continue": rest} if rest else {})}, Sight())

    async def calendar(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        await self._require(caller, BUDGETS)
        since = _instant_of(request, "from") or self._clock.now()
        until = _instant_of(request, "to") or since + timedelta(days=7)
        if not since < until <= since + LONGEST:
            raise Refused("malformed", f"`to` has to be after `from`, by at most {LONGEST.days} days")
        await self._watcher.current()
        return _json(calendar_of(self._kernel().store, self._watcher.setup, since, until), Sight())

    async def begin_forecast(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        await self._require(caller, NODES)
        body: ForecastRequest = await _body(request, ForecastRequest)
        self._kernel()
        picture = await self._watcher.current()
        try:
            key = self._forecasts.begin(_name(caller), picture.seq, body.changes)
        except Crowded:
            raise Refused(
                "too-many", "other forecasts with changes are under way; try again when they are done"
            ) from None
        return _json(ForecastBegun(key), Sight(), 202)

    async def forecast(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        await self._require(caller, NODES)
        found = self._forecasts.get(request.match_info["id"])
        if found is None:
            raise Refused("not-found", "there is no such forecast any more; begin it again")
        if caller.door == LOCAL or not found.plan:
            return _json(found, Sight())
        plan = msgspec.json.decode(found.plan)
        return _json(msgspec.structs.replace(found, plan=plan), await self._sight(caller, plan))

    async def node(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        await self._require(caller, NODES)
        name = request.match_info["name"]
        picture = await self._watcher.current()
        kernel, now = self._kernel(), self._clock.now()
        whole, operator, offered = await asyncio.gather(
            self._whole(kernel, name), self._operator(), self._acting.offers(caller, Target("Node", "", name))
        )
        found = explained_node(kernel, self._watcher.setup, name, whole, operator, now)
        if found is None or name not in picture.rows:
            raise Refused("not-found", f"there is no node named {name[:253]}")
        works = tuple(work for work in picture.works if work.node == name)
        acts = offered.acts if isinstance(offered, Offers) else ()
        page = NodePage(self._known_at(now), picture.rows[name], found, works, pods_of(kernel, name, now), acts)
        sight = await self._sight(caller, (page, picture.works), {pod.namespace for pod in page.pods or ()})
        document = msgspec.to_builtins(page)
        for pod in document["pods"] or ():
            if sight.pods is not None and pod["namespace"] not in sight.pods:
                pod.update(name="", text=hidden_pod(pod["namespace"]))
        return _json(document, sight)

    async def explain(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        owner, kind, key = _explained(request)
        await self._require(caller, NODES, *self._right_of(kind))
        await self._watcher.current()
        kernel, now, setup = self._kernel(), self._clock.now(), self._watcher.setup
        whole, operator = await asyncio.gather(
            self._whole(kernel, key.name if kind is NODE else ""), self._operator(*([owner] if owner else []))
        )
        found: msgspec.Struct | None
        if kind is NODE:
            found = explained_node(kernel, setup, key.name, whole, operator, now)
        elif owner == KERNEL:
            budget = explained_budget(kernel, key.name, setup, now)
            found = msgspec.structs.replace(budget, operator=operator) if budget is not None else None
        else:
            try:
                found = explained_object(kernel, setup, owner, kind, key, operator, now)
            except NotFollowed as missing:
                raise Refused("not-followed", f"the console does not follow {kind.kind}s: {missing}") from None
            except NotListed as error:
                raise Refused("not-yet", f"the {kind.kind} cannot be explained yet: {error}") from None
        if found is None:
            raise Refused("not-found", f"there is no {kind.kind} named {key.name[:253]}")
        return _json(msgspec.to_builtins(found), await self._sight(caller, found))

    async def whoami(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        if isinstance(self._door, LocalDoor):
            caller = await self._door.whoami()
        user, acts = caller.user, await self._acting.permissions(caller)
        return _json(WhoAmI(user.username, user.groups, caller.door, acts, self._cluster, self._clock.now()), Sight())

    async def act(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        key = request.headers.get("X-Haulout-Act", "")
        if not re.fullmatch(KEY_FORM, key):
            raise Refused("malformed", "the header X-Haulout-Act has to be a UUID, a new one for each act")
        body: ActRequest = await _body(request, ActRequest)
        try:
            answer = await self._acting.do(caller, key, body)
        except Reused:
            raise Refused("malformed", "another act was sent with this X-Haulout-Act; make a new UUID") from None
        if isinstance(answer, Problem):
            raise _refusal(answer)
        return _json(answer, Sight())

    async def offers(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        place = request.match_info
        kind = place.get("kind", "")
        target = Target(kind, place.get("namespace", ""), place["name"]) if kind else NOTHING
        answer = await self._acting.offers(caller, target)
        if isinstance(answer, Problem):
            raise _refusal(answer)
        # Offers were read with the caller's own credential.
        return _json(answer, Sight())

    # What handlers ask

    def _kernel(self) -> Kernel:
        kernel = self._watcher.kernel
        if kernel is None:
            raise Refused("not-yet", "the cluster is being read; ask again in a moment")
        return kernel

    def _known_at(self, now: datetime) -> datetime:
        return self._watcher.known_at or now.astimezone(UTC)

    async def _operator(self, *others: str) -> OperatorState:
        """Return whether an operator leads. `others`: surfaces beside those of the setup that are asked about."""
        if self._watcher.is_stale:
            return self._watcher.picture.installation.operator
        return await operator_state(self._watcher.setup, self._questions(), self._clock.now, others=others)

    async def _whole(self, kernel: Kernel, name: str) -> dict[str, Any]:
        """Return a cordoned Node as JSON, with the managed fields that name who cordoned it; else empty."""
        row = kernel.store.row(node_key(name))
        if not isinstance(row, NodeRow) or not row.unschedulable:
            return {}
        try:
            reply = await self._questions().request("GET", f"/api/v1/nodes/{name}")
            found = msgspec.json.decode(reply.body)
        except (NotFound, KubeError, msgspec.DecodeError):
            return {}
        return found if isinstance(found, dict) else {}

    def _questions(self) -> Transport:
        """Return the transport for questions that a page waits for."""
        return UntilSilence(self._transport, lambda: self._watcher.is_silent)

    async def _require(self, caller: Caller, *questions: Question) -> None:
        for question, is_allowed in (await self._door.allowed(caller, questions)).items():
            if not is_allowed:
                raise missing_right(question.verb, question.group, question.resource, question.namespace)

    def _right_of(self, kind: Explained) -> Iterable[Question]:
        return kind_questions([kind.kind], self._brought()).values()

    def _brought(self) -> list[Any]:
        declared = [each.declaration for each in self._watcher.setup.enabled]
        return [kind for each in (*declared, BUDGETS_DECLARATION) for kind in each.kinds]

    async def _sight(self, caller: Caller, document: Any, places: Iterable[str] = ()) -> Sight:
        """Return what the caller may see. `document`: what will be shown, with the namespaces that its texts name."""
        if caller.door == LOCAL:
            return Sight()
        rights = kind_questions(self._watcher.kinds, self._brought())
        answers = await self._door.allowed(caller, {*rights.values(), PODS, PDBS})
        denied = tuple(sorted((kind, right.resource) for kind, right in rights.items() if not answers[right]))
        if answers[PODS] and answers[PDBS]:
            return Sight(denied)
        if isinstance(document, Picture):
            document = (document.causes, document.failures, document.works, document.tables)
        names = sorted({*namespaces_in(msgspec.to_builtins(document)), *places})[:MOST_NAMESPACES]
        return Sight(
            denied,
            None if answers[PODS] else await self._readable(caller, PODS, names),
            None if answers[PDBS] else await self._readable(caller, PDBS, names),
        )

    async def _readable(self, caller: Caller, right: Question, names: Iterable[str]) -> frozenset[str]:
        answers = await self._door.allowed(caller, [within(right, name) for name in names])
        return frozenset(question.namespace for question, is_allowed in answers.items() if is_allowed)


def _json(document: Any, sight: Sight, status: int = 200) -> web.Response:
    headers = {"Cache-Control": "no-store"}
    body = encode(document, sight)
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


async def _send(request: web.Request, body: bytes, content_type: str, headers: Mapping[str, str]) -> web.StreamResponse:
    """Answer with a body of any length, in pieces, without a copy for each caller."""
    response = web.StreamResponse(headers={"Content-Type": content_type, **headers})

    async def piece(start: int) -> memoryview:
        return memoryview(body)[start : start + 2**15]

    return await send_pieces(request, response, len(body), piece)


async def _no_head(request: web.Request) -> web.StreamResponse:
    raise web.HTTPMethodNotAllowed(request.method, ["GET"])


async def _with_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


async def _body(request: web.Request, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except msgspec.DecodeError as error:
        raise Refused("malformed", f"the body cannot be read: {error}") from None


def _refusal(problem: Problem) -> Refused:
    right = {name: getattr(problem, name) for name in ("verb", "group", "resource", "namespace", "done")}
    return Refused(problem.code, problem.detail, **right)


def _problem(error: web.HTTPException) -> Refused:
    codes = {404: "not-found", 405: "wrong-method", 413: "too-large"}
    texts = {404: "there is no such path", 405: "this path does not take this method", 413: "the body is too long"}
    return Refused(codes.get(error.status, "malformed"), texts.get(error.status, "the request cannot be understood"))


def _explained(request: web.Request) -> tuple[str, Explained, Key]:
    """Return the surface, the kind and the key of the object that a path names."""
    word, found = request.match_info["kind"], kinds()
    owner, kind = found.get(word.lower(), ("", None))
    if kind is None:
        known = ", ".join(dict.fromkeys(each.kind for _, each in found.values()))
        raise Refused("not-found", f"the kind cannot be explained (there are: {known})")
    namespace = request.match_info.get("namespace", "")
    if bool(namespace) is not kind.is_namespaced:
        form = "NAMESPACE/NAME" if kind.is_namespaced else "NAME"
        raise Refused("malformed", f"a {kind.kind} is named {form}")
    return owner, kind, Key("", kind.kind, namespace, request.match_info["name"])


def _page_of(request: web.Request) -> tuple[int, int]:
    """Return where a page begins and how long it is."""
    return _number(request, "continue") or 0, _limit(request)


def _limit(request: web.Request) -> int:
    limit = _number(request, "limit")
    if limit is not None and not 1 <= limit <= MOST_PAGE:
        raise Refused("malformed", f"limit has to be from 1 to {MOST_PAGE}")
    return limit or PAGE


def _number(request: web.Request, name: str) -> int | None:
    if name not in request.query:
        return None
    number = digits(_word(request, name), 16)
    if number is None:
        raise Refused("malformed", f"{name} has to be a number")
    return number


def _instant_of(request: web.Request, name: str) -> datetime | None:
    if name not in request.query:
        return None
    try:
        found = datetime.fromisoformat(_word(request, name))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None or not EARLIEST <= found <= LATEST:
        raise Refused("malformed", f"{name} has to be an instant such as 2026-04-01T12:00:00Z")
    return found


def _word(request: web.Request, name: str) -> str:
    text = request.query.get(name, "")
    if len(text) > LONGEST_WORD:
        raise Refused("malformed", f"{name} is too long")
    return text


def _right(question: Question) -> dict[str, str]:
    return msgspec.structs.asdict(question)


def _name(caller: Caller) -> str:
    return f"{caller.door}/{caller.user.username}/{caller.user.uid}"
