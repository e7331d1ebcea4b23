"""The clients of Kubernikus, against a small cloud that checks tokens."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from haulout.clients import openstack
from haulout.clients.kubernikus import CloudAccess, PoolSize, Servers, ServerVersion
from haulout.clients.openstack import CloudError, read_credentials
from haulout.kube.errors import error_from_reply
from haulout.kube.transport import Reply
from haulout.runtime.probes import ProbeFailed
from haulout.surfaces.kubernikus.wire import ServerDeletion
from tests.build.cloud import PASSWORD, OpenStack, serving
from tests.build.fakeapi import status

FILE = ("", "")


class ApiServer:
    """A transport that answers with its objects, and 404 for everything else."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers

    async def request(self, method: str, path: str, **how: Any) -> Reply:
        if path not in self.answers:
            raise error_from_reply(404, status(404, "NotFound"), None)
        return Reply(200, json.dumps(self.answers[path]).encode())

    def stream(self, path: str, **how: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None: ...


@pytest.fixture
async def cloud() -> AsyncIterator[OpenStack]:
    async with serving() as cloud:
        yield cloud


@pytest.fixture
def access(cloud: OpenStack, tmp_path: Path) -> CloudAccess:
    (tmp_path / "cloudprovider.conf").write_text(cloud.config())
    return CloudAccess(ApiServer({}), str(tmp_path / "cloudprovider.conf"))


# Credentials


@pytest.mark.parametrize("quote", ['"', "'", "`", ""])
def test_values_may_be_quoted(quote: str) -> None:
    text = OpenStack().config(region="").replace("[Other]", f"region={quote}x{quote}\n; a remark\n[Other]")
    assert read_credentials(text).region == "x"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            "", "the credentials lack auth-url, username, password, region, domain-name, tenant-id in [Global]"
        ),
        pytest.param(f"[Global]\npassword = {PASSWORD}\nusername = u\n", "the credentials lack auth-url, region, "),
        pytest.param(f"[Global]\n{PASSWORD}\n", "the credentials cannot be read: line 2 is neither"),
    ],
    ids=["empty", "some are missing", "no assignment"],
)
def test_what_cannot_be_read_is_said_without_repeating_it(text: str, words: str) -> None:
    with pytest.raises(CloudError) as caught:
        read_credentials(text)
    assert str(caught.value).startswith(words)
    assert PASSWORD not in str(caught.value)


def test_credentials_do_not_show_their_password() -> None:
    assert PASSWORD not in repr(read_credentials(OpenStack().config()))


async def test_a_secret_holds_them(cloud: OpenStack) -> None:
    entry = base64.b64encode(cloud.config().encode()).decode()
    secrets = "/api/v1/namespaces/ns/secrets"
    api = ApiServer({f"{secrets}/full": {"data": {"cloudprovider.conf": entry}}, f"{secrets}/empty": {}})
    access = CloudAccess(api, "nowhere")
    assert (await access.credentials(("ns", "full"))).password == PASSWORD
    with pytest.raises(CloudError, match=r"^secret ns/empty does not contain key 'cloudprovider.conf'$"):
        await access.credentials(("ns", "empty"))
    with pytest.raises(CloudError, match=r"^secret ns/none cannot be read: "):
        await access.credentials(("ns", "none"))
    with pytest.raises(CloudError, match=r"^the credentials in nowhere cannot be read: No such file or directory$"):
        await access.credentials(FILE)


# Servers


async def delete(access: CloudAccess, name: str) -> None:
    await Servers(access)(ServerDeletion(name, FILE))


async def test_deletes_the_server_of_exactly_this_name(cloud: OpenStack, access: CloudAccess) -> None:
    cloud.servers = [("i0", "node-10"), ("i1", "node-1"), ("i2", "my-node-1")]
    cloud.page = 1
    await delete(access, "node-1")
    assert cloud.deletions == ["i1"]
    assert cloud.scopes == [{"project": {"id": "p-1"}}]


async def test_goes_through_the_proxy_of_the_environment(
    cloud: OpenStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", cloud.url)
    path = tmp_path / "cloudprovider.conf"
    path.write_text(cloud.config(**{"auth-url": "http://keystone.invalid/v3"}))
    await delete(CloudAccess(ApiServer({}), str(path)), "node-1")
    assert cloud.asked[0] == ("POST", "/v3/auth/tokens")


async def test_none_is_success_and_two_are_none_of_our_business(cloud: OpenStack, access: CloudAccess) -> None:
    cloud.servers = [("i0", "node-10"), ("i1", "twin"), ("i2", "twin")]
    await delete(access, "node-1")
    with pytest.raises(CloudError, match=r"^expected to list 1 or 0 servers, but got 2 or more$"):
        await delete(access, "twin")
    assert cloud.deletions == []


async def test_the_list_is_not_read_on_after_the_second_match(cloud: OpenStack, access: CloudAccess) -> None:
    cloud.servers = [("i1", "twin"), ("i2", "twin"), *((f"j{number}", f"twin-{number}") for number in range(20))]
    cloud.page = 2
    with pytest.raises(CloudError, match="but got 2 or more"):
        await delete(access, "twin")
    assert [path for _, path in cloud.asked] == ["/v3/auth/tokens", "/nova/servers/detail"]


async def test_a_page_has_at_most_as_many_servers_as_are_asked_for(cloud: OpenStack, access: CloudAccess) -> None:
    cloud.servers = [(f"i{number}", f"node-1{number}") for number in range(50)] + [("mine", "node-1")]
    await delete(access, "node-1")
    assert cloud.deletions == ["mine"]
    assert [path for _, path in cloud.asked].count("/nova/servers/detail") == 3


async def test_a_page_that_comes_again_is_not_read_again(cloud: OpenStack, access: CloudAccess) -> None:
    cloud.raw[SERVERS] = b'{"servers": [{"id": "i9", "name": "o"}], "servers_links": [{"rel": "next"}]}'
    with pytest.raises(CloudError, match="the list has no end"):
        await delete(access, "node-1")
    assert [path for _, path in cloud.asked].count("/nova/servers/detail") == 2


async def test_a_long_answer_is_read_in_part(cloud: OpenStack, access: CloudAccess) -> None:
    """The catalog of a large cloud has more regions than one, and a server may have more fields than we read."""
    cloud.servers = [("i1", "node-1")]
    cloud.padding = "x" * 10_000
    await delete(access, "node-1")
    assert cloud.deletions == ["i1"]


@pytest.mark.parametrize("path", ["/v3/auth/tokens", "/nova/servers/detail"])
async def test_too_many_items_are_not_taken_for_all(cloud: OpenStack, access: CloudAccess, path: str) -> None:
    item = b'{"id":"i","name":"node-2","type":"compute"}'
    cloud.raw[path] = b'{"servers":[%b],"token":{"catalog":[%b]}}' % ((b",".join([item] * 12_000),) * 2)
    with pytest.raises(CloudError, match=r"the answer has (too many items|more than 20000 values)"):
        await delete(access, "node-1")


async def test_one_that_goes_meanwhile_is_gone(cloud: OpenStack, access: CloudAccess) -> None:
    cloud.servers = [("i1", "node-1")]
    cloud.refuse["/nova/servers/i1"] = 404
    await delete(access, "node-1")


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("/v3/auth/tokens", 401, "signing in to Keystone: the answer was 401 Unauthorized"),
        ("/v3/auth/tokens", 302, "signing in to Keystone: the answer was 302 Found"),
        ("/v3/auth/tokens", 200, "signing in to Keystone: the answer has no token"),
        ("/nova/servers/detail", 503, "listing servers: the answer was 503 Service Unavailable"),
        ("/nova/servers/detail", 200, "listing servers: 127.0.0.1: the answer cannot be read: "),
        ("/nova/servers/i1", 409, "deleting the server: the answer was 409 Conflict"),
    ],
)
async def test_refusals(cloud: OpenStack, access: CloudAccess, path: str, code: int, words: str) -> None:
    cloud.servers = [("i1", "node-1")]
    cloud.refuse[path] = code
    with pytest.raises(CloudError) as caught:
        await delete(access, "node-1")
    assert str(caught.value).startswith(words)
    assert PASSWORD not in str(caught.value)


NESTED = b'{"x":' + b"[" * 200_000
NO_TEXT = b'{"token": {"catalog": [{"type": "\xff"}]}, "servers": [{"id": "\xff"}]}'
SERVERS, TOKENS = "/nova/servers/detail", "/v3/auth/tokens"


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (SERVERS, NESTED, "listing servers: 127.0.0.1: the answer cannot be read: "),
        (SERVERS, NO_TEXT, "listing servers: 127.0.0.1: the answer cannot be read: "),
        (SERVERS, b'{"servers": null}', "listing servers: 127.0.0.1: the answer cannot be read: "),
        (
            SERVERS,
            b'{"servers": [{"id": 1, "name": "node-1"}]}',
            "listing servers: 127.0.0.1: the answer cannot be read: ",
        ),
        (SERVERS, b'{"servers": [{"id": "/x/../i1", "name": "node-1"}]}', "the id of the server is none"),
        (SERVERS, b'{"servers": [{"id": "", "name": "node-1"}]}', "the id of the server is none"),
        (SERVERS, b'{"servers": [], "servers_links": [{"rel": "next"}]}', "listing servers: the list has no end"),
        (
            SERVERS,
            b'{"servers": [{"id": "i9", "name": "o"}], "servers_links": [{"rel": "next"}]}',
            "listing servers: the list has no end",
        ),
        (TOKENS, NESTED, "signing in to Keystone: 127.0.0.1: the answer cannot be read: "),
        (TOKENS, NO_TEXT, "signing in to Keystone: 127.0.0.1: the answer cannot be read: "),
        (TOKENS, b'{"token": {"catalog": null}}', "signing in to Keystone: 127.0.0.1: the answer cannot be read: "),
        (TOKENS, b"<html>sorry</html>", "signing in to Keystone: 127.0.0.1: the answer cannot be read: "),
    ],
)
async def test_answers_that_are_none(
    cloud: OpenStack,
    access: CloudAccess,
    path: str,
    body: bytes,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openstack, "MOST_PAGES", 5)
    cloud.raw[path] = body
    with pytest.raises(CloudError) as caught:
        await delete(access, "node-1")
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)
    assert cloud.deletions == []


@pytest.mark.parametrize(
    ("encoding", "why"), [("identity", "longer than 100000 bytes"), ("gzip", "compressed, which was not asked for")]
)
async def test_an_answer_that_does_not_end_is_not_read_to_its_end(
    cloud: OpenStack, access: CloudAccess, encoding: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openstack, "LONGEST_ANSWER", 100_000)
    cloud.endless = encoding
    with pytest.raises(CloudError, match=f"^listing servers: 127.0.0.1: the answer is {why}"):
        await delete(access, "node-1")


async def test_a_slow_answer_is_given_up(
    cloud: OpenStack, access: CloudAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openstack, "ANSWER_WITHIN", 0.5)
    cloud.endless, cloud.drip = "identity", 0.05
    monkeypatch.setattr(openstack, "LONGEST_ANSWER", 2**30)
    with pytest.raises(CloudError, match=r"^listing servers: 127.0.0.1: no answer within 0.5 s$"):
        await delete(access, "node-1")


@pytest.mark.parametrize("path", ["/v3/auth/tokens", "/nova/servers/detail", "/nova/servers/i1"])
async def test_no_redirect_is_followed(cloud: OpenStack, access: CloudAccess, path: str) -> None:
    """It would carry the password or the token elsewhere."""
    cloud.servers = [("i1", "node-1")]
    cloud.lead[path] = "/elsewhere"
    with pytest.raises(CloudError, match=r": the answer was 307 Temporary Redirect$"):
        await delete(access, "node-1")
    assert cloud.asked[-1][1] == path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"region": "r-9"}, "the catalog knows no public compute endpoint in region r-9"),
        ({"auth-url": f"keystone?{PASSWORD}"}, "auth-url is no URL"),
        ({"auth-url": f"http://robot:{PASSWORD}@[::1"}, "auth-url is no URL"),
        ({"auth-url": "http://127.0.0.1:1/v3"}, "signing in to Keystone: 127.0.0.1: no connection: Connection refused"),
        ({"password": "wrong"}, "signing in to Keystone: the answer was 401 Unauthorized"),
    ],
    ids=["another region", "no address", "half an address", "nobody there", "another password"],
)
async def test_wrong_credentials(cloud: OpenStack, tmp_path: Path, changes: dict[str, str], words: str) -> None:
    (tmp_path / "c").write_text(cloud.config(**changes))
    with pytest.raises(CloudError) as caught:
        await delete(CloudAccess(ApiServer({}), str(tmp_path / "c")), "node-1")
    assert str(caught.value).startswith(words)
    assert PASSWORD not in str(caught.value)


async def test_nothing_secret_is_logged(
    cloud: OpenStack, access: CloudAccess, caplog: pytest.LogCaptureFixture
) -> None:
    cloud.servers = [("i1", "node-1")]
    with caplog.at_level(logging.DEBUG):
        await delete(access, "node-1")
    assert [record.message for record in caplog.records if record.name == "haulout.kubernikus"] == ["server deleted"]
    assert not [
        record for record in caplog.records if PASSWORD in str(record.__dict__) or "tok-1" in str(record.__dict__)
    ]


async def test_the_version_of_keystone_may_be_left_out(cloud: OpenStack, tmp_path: Path) -> None:
    (tmp_path / "c").write_text(cloud.config(**{"auth-url": f"{cloud.url}/"}))
    await delete(CloudAccess(ApiServer({}), str(tmp_path / "c")), "node-1")
    assert cloud.asked[0] == ("POST", "/v3/auth/tokens")


# Probes


async def test_the_api_servers_version() -> None:
    assert await ServerVersion(ApiServer({"/version": {"gitVersion": "v1.36.3"}}))("") == "v1.36.3"
    with pytest.raises(ProbeFailed, match=r"^failed to ask the API server for its version: "):
        await ServerVersion(ApiServer({}))("")


@pytest.mark.parametrize("pools, size", [([], 0), (None, 0), ([{"name": "a", "size": 2}, {"size": 3}, {}], 5)])
async def test_the_size_of_all_pools(cloud: OpenStack, access: CloudAccess, pools: Any, size: int) -> None:
    cloud.pools = pools
    assert await PoolSize(access, cloud.url)(("mine", *FILE)) == size


@pytest.mark.parametrize(
    ("name", "refused", "words"),
    [
        ("other", {}, "asking Kubernikus for the cluster: the answer was 404 Not Found"),
        ("mine", {"/api/v1/clusters/mine": 500}, "asking Kubernikus for the cluster: the answer was 500 Internal"),
        (
            "mine",
            {"/api/v1/clusters/mine": 200},
            "asking Kubernikus for the cluster: 127.0.0.1: the answer cannot be read: ",
        ),
        ("mine", {"/v3/auth/tokens": 403}, "signing in to Keystone: the answer was 403 Forbidden"),
    ],
)
async def test_g17_an_error_is_no_size(
    cloud: OpenStack, access: CloudAccess, name: str, refused: dict[str, int], words: str
) -> None:
    cloud.refuse = refused
    with pytest.raises(ProbeFailed) as caught:
        await PoolSize(access, cloud.url)((name, *FILE))
    assert str(caught.value).startswith(f"failed to ask for the node pools of {name}: {words}")
