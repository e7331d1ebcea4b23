"""Only a real API server is believed when it says that a kind is not served."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from haulout.kube.discovery import is_api_server
from haulout.kube.errors import ConnectionFailed, KubeError
from haulout.kube.transport import Reply, Transport
from tests.build.fakeapi import refusal


@pytest.mark.parametrize(
    "answer, believed",
    [
        (b'{"kind":"APIVersions","versions":["v1"]}', True),
        (refusal(403, "Forbidden"), True),
        (refusal(403, ""), False),
        (refusal(404, "NotFound"), False),
        (ConnectionFailed("refused"), False),
        (b'{"versions":[]}', False),
        (b"{}", False),
        (b"<html>", False),
    ],
    ids=["it is", "closed to us", "a wall", "lost its servers", "nobody", "no version", "another API", "a page"],
)
def test_who_answers(answer: bytes | KubeError, believed: bool) -> None:
    async def request(method: str, path: str, *, timeout: float) -> Reply:
        assert (method, path, timeout) == ("GET", "/api", 3)
        if isinstance(answer, KubeError):
            raise answer
        return Reply(200, answer)

    transport = cast(Transport, SimpleNamespace(request=request))
    assert asyncio.run(is_api_server(transport, within=3)) is believed
