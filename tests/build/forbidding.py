"""A proxy before the embedded cluster that forbids some resources, as RBAC does.

The embedded cluster allows everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
from aiohttp import ClientSession, web

from tests.build.server import serve


class Forbidding:
    """A proxy that passes requests on to the cluster of a kubeconfig, except for paths that match `resources`.

    Its own kubeconfig is the file `limited` beside that one.
    """

    def __init__(self, kubeconfig: Path, resources: str) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        self._config = config
        self._server = config["clusters"][0]["cluster"]["server"]
        self._token = config["users"][0]["user"]["token"]
        self._resources = re.compile(rf"/({resources})(/|$)")
        self._path = kubeconfig.with_name("limited")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stack = contextlib.AsyncExitStack()
        self._session: ClientSession

    def __enter__(self) -> Path:
        self._thread.start()
        self._run(self._start())
        return self._path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _start(self) -> None:
        self._session = await self._stack.enter_async_context(ClientSession())
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        address = await self._stack.enter_async_context(serve(app))
        self._config["clusters"][0]["cluster"] = {"server": address}
        self._path.write_text(yaml.safe_dump(self._config))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if found := self._resources.search(request.path):
            verb = "watch" if "watch" in request.query else "list" if request.path.endswith(found[1]) else "get"
            message = f'{found[1]} is forbidden: User "me" cannot {verb} resource "{found[1]}"'
            body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}
            return web.json_response(body, status=403)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": request.headers.get("Accept", "")}
        trusted = ssl.create_default_context()
        trusted.check_hostname, trusted.verify_mode = False, ssl.CERT_NONE
        async with self._session.get(f"{self._server}{request.rel_url}", headers=headers, ssl=trusted) as answer:
            reply = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]})
            await reply.prepare(request)
            async for chunk in answer.content.iter_any():
                await reply.write(chunk)
            return reply
