"""The console among crowds: connections that say nothing, streams that do not read, made-up tokens. Others are served."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from haulout.embedded import NODES
from tests.build.console import ConsoleCaller, running_console
from tests.build.served import Served
from tests.build.workloads import node
from tests.scenario.test_status import SETTINGS

NAMES = [f"n{number:03}" for number in range(120)]
CROWD, STREAMS, TURNS = 500, 40, 12
LONG = "x" * 60


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("console")
    with Served(folder) as made:
        (folder / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
        made.make(*(node(name) for name in NAMES))
        yield made


@pytest.fixture
def console(served: Served) -> Iterator[ConsoleCaller]:
    with running_console(served) as made:
        assert made.login().status == 204
        made.until(lambda: len(made.rows()) == len(NAMES))
        yield made


@contextlib.contextmanager
def crowd(port: int, count: int, said: str) -> Iterator[None]:
    """Open connections that say something and never read."""
    with contextlib.ExitStack() as held:
        for _ in range(count):
            with contextlib.suppress(OSError):
                one = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                one.sendall(said.encode())
        yield


@pytest.mark.parametrize("said", ["", "GET /api/v1/fleet HTTP/1.1\r\nHost: x\r\n"], ids=["silent", "half a request"])
def test_five_hundred_connections_lock_no_page_out(said: str, console: ConsoleCaller) -> None:
    with crowd(console.port, CROWD, said):
        assert console.get("fleet").status == 200
        events = console.events()
        assert next(events)[0] in (":", "rows", "tables", "installation")
        events.close()


def test_streams_that_are_not_read_delay_no_other(console: ConsoleCaller, served: Served) -> None:
    asks = f"GET /api/v1/stream HTTP/1.1\r\nHost: {console.host}\r\nCookie: {console.cookie}\r\n\r\n"
    with crowd(console.port, STREAMS, asks):
        for turn in range(TURNS):
            for name in NAMES:
                served.change(NODES, name, {"metadata": {"labels": {"turn": f"{turn}-{LONG}"}}})
        events = console.events(console.read("fleet")["seq"])
        served.change(NODES, NAMES[0], {"spec": {"unschedulable": True}})
        told = next(row for name, data in events if name == "rows" for row in data["set"] if row["name"] == NAMES[0])
        assert told["state"] == "cordoned"
        events.close()


def test_more_streams_than_places_end_the_oldest(console: ConsoleCaller) -> None:
    asks = f"GET /api/v1/stream HTTP/1.1\r\nHost: {console.host}\r\nCookie: {console.cookie}\r\n\r\n"
    with crowd(console.port, 200, asks):
        events = console.events()
        assert next(events)[0] in (":", "rows", "tables", "installation")
        assert console.get("fleet").status == 200
        events.close()


def test_made_up_tokens_are_refused_and_the_page_is_served(served: Served) -> None:
    with running_console(served, "--door", "bearer", "--behind-proxy") as door, ThreadPoolExecutor(16) as many:
        guesses = [ConsoleCaller(door.port, token=f"made-up-{number}") for number in range(200)]
        answers = list(many.map(lambda caller: caller.get("fleet"), guesses))
        assert {answer.status for answer in answers} <= {401, 429, 503}
        assert door.ask("GET", "/").status == 200
