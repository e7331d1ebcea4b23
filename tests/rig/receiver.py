"""A server that receives notifications, as webhooks and as Slack's API. It can be slow or refuse them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.rig.api import Json


class Receiver:
    """The server.

    `refuses`: paths that get another answer than Slack's. `slow`: seconds to wait, by path. `pages`: for GET.
    """

    def __init__(self) -> None:
        self.got: list[tuple[str, Json]] = []
        self.forms: list[bytes] = []
        self.refuses: set[str] = set()
        self.slow: dict[str, float] = {}
        self.pages: dict[str, str] = {}
        self.read: list[str] = []

    def take(self, path: str, body: bytes) -> bytes:
        if path.startswith("/api/"):
            self.forms.append(body)
            return json.dumps({"ok": True, "ts": f"{len(self.forms)}.0"}).encode()
        self.got.append((path, json.loads(body)))
        time.sleep(self.slow.get(path, 0))
        return b"nope" if path in self.refuses else b"ok"

    def texts(self, path: str, node: str = "") -> list[str]:
        return [body["text"] for where, body in list(self.got) if where == path and node in body["text"]]

    @contextmanager
    def open(self) -> Iterator[str]:
        """Serve. Yield the address."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.answer(200, receiver.take(self.path, self.rfile.read(int(self.headers["Content-Length"]))))

            def do_GET(self) -> None:
                receiver.read.append(self.path)
                page = receiver.pages.get(self.path)
                self.answer(404 if page is None else 200, (page or "").encode())

            def answer(self, code: int, answer: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
