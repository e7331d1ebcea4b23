"""The HTTPS server of the embedded cluster on loopback, for kubectl and any other client."""

from __future__ import annotations

import base64
import hmac
import secrets
from inspect import isawaitable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import yaml
from aiohttp import web

from haulout.embedded.face.api import Api
from haulout.embedded.face.certificates import make_pair
from haulout.embedded.face.inprocess import lines
from haulout.embedded.face.responses import Response, refuse
from haulout.embedded.face.watches import Watch
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals
from haulout.kube.transport import JSON

# The limit of the real server.
_LARGEST_BODY = 3 * 2**20


# The name of cluster, user and context in the kubeconfigs that are written.
CONTEXT = "haulout-embedded"


class KubeconfigRefused(ValueError):
    """The kubeconfig cannot be written where it is wanted. The message is for users."""


class HttpFace:
    """The HTTPS server in front of an embedded API server.

    It serves while its context is entered. Clients that present `token` may do everything, others nothing.
    """

    def __init__(
        self,
        api: Api,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        tls: bool = True,
    ) -> None:
        self._api = api
        api.notes_fields = True
        self._host = host
        self._port = port
        self.token = token or secrets.token_urlsafe(24)
        self.pair = make_pair((host, "localhost", "127.0.0.1")) if tls else None
        self._runner: web.ServerRunner | None = None
        self._watches: set[Watch] = set()
        self.url = ""

    async def __aenter__(self) -> Self:
        server = web.Server(self._serve, access_log=None, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        context = self.pair.server_context() if self.pair else None
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=context)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if self.pair else 'http'}://{self._host}:{port}"
        self._api.address = f"{self._host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for watch in tuple(self._watches):
            watch.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def kubeconfig(self) -> str:
        cluster: Json = {"server": self.url}
        if self.pair:
            cluster["certificate-authority-data"] = base64.b64encode(self.pair.certificate).decode()
        name = CONTEXT
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": self.token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        }
        return yaml.safe_dump(config, sort_keys=False)

    def write_kubeconfig(self, path: Path) -> None:
        """Write a kubeconfig that only its owner can read, as it holds the token. Refuse to replace another file.

        Raises KubeconfigRefused.
        """
        if path.exists() and not _is_ours(path):
            raise KubeconfigRefused(f"{path} exists and was not written by an embedded cluster: name another file")
        try:
            path.touch(mode=0o600)
            path.chmod(0o600)
            path.write_text(self.kubeconfig())
        except OSError as error:
            raise KubeconfigRefused(f"{path} cannot be written: {error.strerror}") from error

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if not self._knows(request.headers.get("Authorization", "")) and not request.path.endswith("z"):
            error = refusals.refusal(401, "Unauthorized", "Unauthorized")
            return web.Response(
                status=401, body=msgspec.json.encode(refusals.body(error)), content_type="application/json"
            )
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await _body(request)
        if len(body) > _LARGEST_BODY:
            return _response(refuse(refusals.too_large_body(_LARGEST_BODY)))
        found = self._api.handle(request.method, request.path, dict(request.query), headers, body)
        answer = await found if isawaitable(found) else found
        if answer.watch is not None:
            return await self._stream(request, answer.watch)
        return _response(answer)

    def _knows(self, authorization: str) -> bool:
        return hmac.compare_digest(authorization.encode(), f"Bearer {self.token}".encode())

    async def _stream(self, request: web.BaseRequest, watch: Watch) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON})
        self._watches.add(watch)
        try:
            await response.prepare(request)
            async for line in lines(watch, 1e9):
                # All lines that have arrived are sent in one write.
                rest = b"".join(watch.lines)
                watch.lines.clear()
                await response.write(line + rest)
            await response.write_eof()
        except ConnectionError:
            pass
        finally:
            self._watches.discard(watch)
            watch.close()
        return response


async def _body(request: web.BaseRequest) -> bytes:
    """Read the body of a request, up to the size at which it counts as too large."""
    body = bytearray()
    while len(body) <= _LARGEST_BODY and (part := await request.content.readany()):
        body += part
    return bytes(body)


def _response(answer: Response) -> web.Response:
    response = web.Response(status=answer.status, body=answer.body)
    response.headers["Content-Type"] = answer.content_type
    for name, value in answer.headers:
        response.headers.add(name, value)
    return response


def _is_ours(path: Path) -> bool:
    """Whether a file is the kubeconfig of an embedded cluster and of nothing else."""
    try:
        text = path.read_text()
        found = yaml.safe_load(text) if text else {"contexts": [{"name": CONTEXT}]}
        return [each["name"] for each in found["contexts"]] == [CONTEXT]
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return False
