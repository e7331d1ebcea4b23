"""Foreign texts cannot make a message long: those of a kubeconfig in a Secret, or of an unreadable object."""

from __future__ import annotations

import json
from typing import cast

import pytest

from haulout.kube.allowed_addresses import Reach
from haulout.kube.codec import Broken, Kind
from haulout.kube.config import from_secret
from haulout.kube.discovery import is_api_server, served_groups
from haulout.kube.errors import ConfigInvalid, ConnectionFailed, KubeError, error_from_reply
from haulout.kube.transport import Reply, Transport
from haulout.model.node import Node
from haulout.runtime.served_versions import serving
from haulout.surfaces.clusterapi.surface import CLUSTERAPI

LONG = "a" * 50_000
MACHINES = next(each for each in CLUSTERAPI.kinds if each.versions)
NODES = Kind(Node)


def kubeconfig(
    context: str = "it", cluster: str = "it", user: str = "it", server: str = "https://10.0.0.1", **secrets: object
) -> bytes:
    return json.dumps(
        {
            "kind": "Config",
            "current-context": context,
            "clusters": [{"name": "it", "cluster": {"server": server}}, {"name": LONG}],
            "users": [{"name": "it", "user": secrets}, {"name": LONG[1:], "user": {"token": 1}}],
            "contexts": [{"name": "it", "context": {"cluster": cluster, "user": user}}, {"name": LONG[2:]}],
        }
    ).encode()


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        pytest.param(kubeconfig(context=LONG), "aaa…)", id="no such context"),
        pytest.param(kubeconfig(cluster=LONG[5:]), "aaa…)", id="no such cluster"),
        pytest.param(kubeconfig(user=LONG[5:]), "aaa…)", id="no such user"),
        pytest.param(kubeconfig(user=LONG[1:]), "token: Expected str, got int", id="entry that is wrong"),
        pytest.param(kubeconfig(server=LONG), "(https://host:port would be right)", id="server"),
        pytest.param(kubeconfig().replace(b"Config", LONG.encode()), "(kind: Config would be right)", id="kind"),
        pytest.param(b"users: [{name: %b, user: 1}]" % LONG.encode(), "is not a mapping", id="no mapping"),
        pytest.param(b"users: [" + b"{name: %b}," % LONG.encode() * 2 + b"]", "(keep one)", id="twice"),
    ],
)
def test_message_about_a_kubeconfig_is_short_and_says_what_would_be_right(text: bytes, ending: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        from_secret(text, source="Secret x/y", reach=Reach(), env={})
    message = str(caught.value)
    assert message.startswith("Secret x/y: ")
    assert message.endswith(ending)
    assert len(message) < 800


@pytest.mark.parametrize("kind", [KubeError, ConnectionFailed])
def test_no_message_is_longer_than_a_line(kind: type[KubeError]) -> None:
    assert len(str(kind(LONG))) == 1000


@pytest.mark.parametrize("field", ["name", "namespace", "resourceVersion"])
def test_object_that_cannot_be_read_has_a_short_name(field: str) -> None:
    found = NODES.item(json.dumps({"metadata": {"name": 1, field: [LONG]}}).encode())
    assert isinstance(found, Broken)
    assert max(map(len, (found.name, found.version, found.why))) <= 2 * 253 + 1


NO_TEXT, DEEP = b'{"kind":"Status","message":"\xff"}', b'{"kind":"Status","x":' + b"[" * 50_000


@pytest.mark.parametrize("body", [NO_TEXT, DEEP], ids=["no text", "too deep"])
def test_a_refusal_that_cannot_be_read_is_one_without_words(body: bytes) -> None:
    assert str(error_from_reply(503, body)) == "answered with HTTP 503"


NO_NAMES = b'{"versions":["\xff"],"groups":[{"versions":[{"groupVersion":"\xff"}]}],"resources":[{"name":"\xff"}]}'


@pytest.mark.parametrize("body", [NO_NAMES, DEEP], ids=["no text", "too deep"])
async def test_a_server_whose_discovery_cannot_be_read_is_no_api_server(body: bytes) -> None:
    class Hostile:
        async def request(self, method: str, path: str, **more: object) -> Reply:
            return Reply(200, body)

    server = cast("Transport", Hostile())
    assert not await is_api_server(server, within=1)
    with pytest.raises(KubeError, match="cannot be read"):
        await served_groups(server)
    with pytest.raises(KubeError, match="not from an API server"):
        await serving(server, MACHINES, within=1)


@pytest.mark.parametrize(
    ("header", "seconds", "pause"),
    [("7", None, 7.0), ("9" * 400, None, 3600.0), ("\u00b2", None, None), (None, 10**400, 3600.0), (None, -5, 0.0)],
    ids=["ordinary", "long header", "no digit", "long number", "negative"],
)
def test_a_server_is_left_alone_for_an_hour_at_most(
    header: str | None, seconds: int | None, pause: float | None
) -> None:
    details = {} if seconds is None else {"details": {"retryAfterSeconds": seconds}}
    error = error_from_reply(429, json.dumps({"kind": "Status", "code": 429, **details}).encode(), header)
    assert error.retry_after == pause
