"""A server with the console's own page, address and headers, whose answers are fixed: for pictures and for what a page does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.web.stage_data import NOW, Stage, wire

SECRET = "stage"
STATIC = Path(str(resources.files("haulout"))) / "console" / "static"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


class StageServer:
    """The stage on a port of loopback, in a thread of its own. Tests change what it answers while a page is open.

    `is_away`: every connection is cut, as if the console had ended. `is_expired`: every session is refused.
    """

    def __init__(self, stage: Stage, port: int = 0) -> None:
        self.stage = stage
        self.is_away = self.is_expired = False
        self.seq = 1
        self.url = ""
        self.requests: list[str] = []
        self._port = port
        self._queues: list[asyncio.Queue[str | None]] = []
        self._changes: list[tuple[int, str]] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> StageServer:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._queues)

    def change(self, *rows: dict[str, Any], gone: tuple[str, ...] = ()) -> None:
        """Change rows of nodes, and send them."""
        by_name = {row["name"]: row for row in self.stage.nodes} | {row["name"]: row for row in rows}
        self.stage.nodes = [row for name, row in by_name.items() if name not in gone]
        self.seq += 1
        text = _event("rows", {"seq": self.seq, "set": list(rows), "gone": list(gone)})
        self._loop.call_soon_threadsafe(self._put_change, self.seq, text)

    def send(self, event: str, data: Any) -> None:
        self._loop.call_soon_threadsafe(self._put, _event(event, data))

    def go_away(self) -> None:
        """Cut all streams and refuse all requests until `come_back`."""
        self.is_away = True
        self._loop.call_soon_threadsafe(self._put, None)

    def _put(self, text: str | None) -> None:
        for queue in self._queues:
            queue.put_nowait(text)

    def _put_change(self, seq: int, text: str) -> None:
        self._changes.append((seq, text))
        self._put(text)

    def come_back(self) -> None:
        self.is_away = False

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", self._port)
        self._loop.run_until_complete(site.start())
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._checked])
        app.on_response_prepare.append(_with_policy)
        app.router.add_post("/api/v1/login", self._login)
        app.router.add_get("/api/v1/stream", self._stream)
        app.router.add_post("/api/v1/acts", self._act)
        app.router.add_post("/api/v1/forecasts", self._forecast)
        app.router.add_get("/api/v1/{path:.+}", self._read)
        app.router.add_get("/{path:.*}", self._page)
        return app

    @web.middleware
    async def _checked(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path_qs}")
        if self.is_away:
            assert request.transport is not None
            request.transport.abort()
            return web.Response(status=503)
        is_api = request.path.startswith("/api/") and not request.path.endswith("/login")
        known = (
            request.cookies.get("haulout_session") == SECRET or request.headers.get("Authorization") == "Bearer good"
        )
        if is_api and (self.is_expired or not known):
            return web.json_response({"code": "not-logged-in", "detail": "log in"}, status=401)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _login(self, request: web.Request) -> web.Response:
        if (await request.json()).get("secret") != SECRET:
            return web.json_response({"code": "wrong-secret", "detail": "wrong"}, status=401)
        answer = web.Response(status=204)
        answer.set_cookie("haulout_session", SECRET, httponly=True, samesite="Strict")
        return answer

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        # A page gets the changes since its picture, also those that came before its stream was open.
        for seq, text in self._changes:
            if seq > int(request.query.get("since", "0")):
                queue.put_nowait(text)
        self._queues.append(queue)
        # The page closes its stream whenever it likes.
        with contextlib.suppress(ConnectionError):
            await answer.prepare(request)
            await self._write(answer, queue)
        self._queues.remove(queue)
        return answer

    async def _write(self, answer: web.StreamResponse, queue: asyncio.Queue[str | None]) -> None:
        await answer.write(b": hello\n\n")
        while True:
            try:
                text = await asyncio.wait_for(queue.get(), 0.5)
            except TimeoutError:
                text = ": alive\n\n"
            if text is None:
                break
            await answer.write(text.encode())

    async def _act(self, request: web.Request) -> web.Response:
        assert request.headers.get("X-Haulout-Act")
        status, body = self.stage.act(await request.json())
        return web.json_response(body, status=status)

    async def _forecast(self, request: web.Request) -> web.Response:
        changes = (await request.json())["changes"]
        return web.json_response({"id": "changed" if changes else "1"}, status=202)

    async def _read(self, request: web.Request) -> web.Response:
        found = self._answer(request.match_info["path"], request.query)
        if found is None:
            return web.json_response({"code": "not-found", "detail": "there is no such object"}, status=404)
        return web.json_response(found)

    def _answer(self, path: str, query: Mapping[str, str]) -> Any:
        stage = self.stage
        name, _, rest = path.partition("/")
        match name:
            case "fleet":
                return stage.fleet(self.seq)
            case "causes":
                return {name: stage.causes}
            case "works":
                return _page(stage.works, int(query.get("continue", 0)), int(query.get("limit", 100)))
            case "records":
                return {"records": [each for each in stage.records() if _wanted(each, query)]}
            case "budgets" | "failures" | "rollouts" | "installation":
                return {name: getattr(stage, name)()}
            case "calendar":
                return {"windows": stage.windows()}
            case "nodes":
                return stage.node(rest)
            case "acts":
                return {"acts": stage.offers_for(rest.partition("/")[0]) if rest else stage.offers_of_all()}
            case "forecasts":
                plan = stage.plan(changed=rest == "changed")
                return {"id": rest, "state": "done", "progress": 1.0, "detail": "", "asOf": wire(NOW), "plan": plan}
            case "explain" if rest.startswith("Skyhook/"):
                return stage.rollout(rest.rpartition("/")[2])
            case "explain":
                return stage.budget(rest.rpartition("/")[2])
            case "whoami":
                return {
                    "user": "ops",
                    "groups": ["team-infra"],
                    "door": "local",
                    "acts": {},
                    "cluster": "prod-eu-1",
                    "now": wire(NOW),
                }
        return None

    async def _page(self, request: web.Request) -> web.FileResponse:
        file = STATIC / request.path.strip("/")
        return web.FileResponse(file if file.is_file() else STATIC / "index.html")


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _page(items: list[Any], start: int, limit: int) -> dict[str, Any]:
    """Return a page of the maintenances, as the console does."""
    rest = {"continue": str(start + limit)} if start + limit < len(items) else {}
    return {"works": items[start : start + limit], **rest}


def _wanted(record: dict[str, Any], query: Mapping[str, str]) -> bool:
    is_open = "outcome" not in record["status"]
    return query.get("node") in (None, record["spec"]["node"]["name"]) and (query.get("outcome") != "open" or is_open)


async def _with_policy(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Content-Security-Policy"] = CSP


if __name__ == "__main__":
    with StageServer(Stage(int(sys.argv[1]), hostile="hostile" in sys.argv), port=int(sys.argv[2])) as served:
        print(f"console: {served.url}/#{SECRET}", flush=True)
        threading.Event().wait()
