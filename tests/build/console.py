"""`haulout console` as a process, and a caller of its API."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import msgspec

from tests.build.served import PATIENCE, Served


class Answer(msgspec.Struct, frozen=True):
    """An answer of the console."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ConsoleCaller:
    """A browser in short: it logs in and sends what a page would send."""

    def __init__(self, port: int, secret: str = "", token: str = "") -> None:
        self.port, self.secret, self.token = port, secret, token
        self.host = f"127.0.0.1:{port}"
        self.cookie = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str | None) -> Answer:
        """Send a request. A header that is None is left out; `_` in its name stands for `-`."""
        sent: dict[str, str | None] = {"Host": self.host, "Cookie": self.cookie or None}
        sent |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if method == "POST":
            sent |= {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
            sent |= {"X-Haulout-Act": str(uuid.uuid4()), "Content-Length": str(len(data or b""))}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as call:
            call.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value is not None:
                    call.putheader(name, value)
            call.endheaders(data)
            reply = call.getresponse()
            return Answer(reply.status, dict(reply.headers.items()), reply.read())

    def get(self, path: str, **headers: str | None) -> Answer:
        return self.ask("GET", f"/api/v1/{path}", **headers)

    def read(self, path: str) -> Any:
        found = self.get(path)
        assert found.status == 200, found
        return found.json

    def login(self) -> Answer:
        done = self.ask("POST", "/api/v1/login", {"secret": self.secret})
        self.cookie = done.headers.get("Set-Cookie", "").partition(";")[0]
        return done

    def rows(self) -> dict[str, Any]:
        return {row["name"]: row for row in self.read("fleet")["nodes"]}

    def until(self, holds: Any) -> Any:
        end = time.monotonic() + PATIENCE
        while not (found := holds()):
            assert time.monotonic() < end, "it did not come to pass in time"
            time.sleep(0.05)
        return found

    def events(self, since: int | None = None) -> Generator[tuple[str, Any], None, None]:
        """Yield the events of a stream; a comment has the name `:`."""
        call = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        query = "" if since is None else f"?since={since}"
        call.request("GET", f"/api/v1/stream{query}", headers={"Cookie": self.cookie, **self._authorization()})
        reply = call.getresponse()
        assert reply.status == 200, reply.read()
        name = ""
        try:
            while line := reply.readline().decode().rstrip("\n"):
                if line.startswith(":"):
                    yield ":", None
                elif line.startswith("event: "):
                    name = line[7:]
                else:
                    yield name, json.loads(line.removeprefix("data: "))
                reply.readline() if line.startswith((":", "data")) else None
        finally:
            call.close()

    def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


@contextlib.contextmanager
def running_console(served: Served, *words: str) -> Iterator[ConsoleCaller]:
    """Run the console against an embedded cluster. Yield a caller that has not logged in."""
    with console_of(served.start("console", "--no-open", *words)) as caller:
        yield caller


@contextlib.contextmanager
def console_of(process: subprocess.Popen[str]) -> Iterator[ConsoleCaller]:
    """Yield a caller of a console that has just been started, and end it afterwards."""
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"console: https?://127\.0\.0\.1:(\d+)/(?:#(\S+))?\n", line)
        assert found is not None, (
            f"{line!r}{process.communicate(timeout=PATIENCE) if process.poll() is not None else ''}"
        )
        yield ConsoleCaller(int(found[1]), found[2] or "")
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
        assert "Traceback" not in errors, errors
        assert process.returncode == 0, errors
