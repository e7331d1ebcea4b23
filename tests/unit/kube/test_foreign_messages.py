"""What others wrote makes no message long: neither a kubeconfig from a Secret nor an object that cannot be read."""

from __future__ import annotations

import json

import pytest

from haulout.kube.allowed_addresses import Reach
from haulout.kube.codec import Broken, Kind
from haulout.kube.config import from_secret
from haulout.kube.errors import ConfigInvalid, ConnectionFailed, KubeError
from haulout.model.node import Node

LONG = "a" * 50_000
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
