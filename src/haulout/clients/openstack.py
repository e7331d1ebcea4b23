"""As much of OpenStack as is needed: a token of Keystone for a project, and the servers of Nova by their name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from haulout.clients.body import TooLong, read_whole

SECTION = "Global"
# Field of `Credentials` by its name in the file.
FIELDS = {
    "auth-url": "auth_url",
    "username": "username",
    "password": "password",
    "region": "region",
    "domain-name": "domain",
    "tenant-id": "project",
}
QUOTES = ('"', "'", "`")
# A page of servers or hypervisors, with room to spare.
LONGEST_ANSWER = 16 * 2**20
ANSWER_WITHIN = aiohttp.ClientTimeout(total=30)
# More pages than any project has: a server that always knows a next one must not keep us.
MOST_PAGES = 1000


class CloudError(Exception):
    """What failed, in one line that holds no secret."""


class Credentials(msgspec.Struct, frozen=True):
    """How to sign in to an OpenStack project at Keystone. The password is shown in no representation."""

    auth_url: str
    username: str
    password: str
    region: str
    domain: str
    project: str

    def __repr__(self) -> str:
        """Return the credentials without the password, for logs."""
        return f"Credentials({self.auth_url!r}, {self.username!r}, region={self.region!r}, project={self.project!r})"


def read_credentials(text: str) -> Credentials:
    """Read `cloudprovider.conf`. Messages name keys and lines, never what stands there."""
    values = {name: value for section, name, value in _entries(text) if section == SECTION}
    lacking = [name for name in FIELDS if not values.get(name)]
    if lacking:
        raise CloudError(f"the credentials lack {', '.join(lacking)} in [{SECTION}]")
    return Credentials(**{field: values[name] for name, field in FIELDS.items()})


def _entries(text: str) -> list[tuple[str, str, str]]:
    found, section = [], ""
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and line[-1] == "]":
            section = line[1:-1].strip()
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise CloudError(f"the credentials cannot be read: line {number} is neither a section nor name = value")
        found.append((section, name.strip(), _unquoted(value.strip())))
    return found


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in QUOTES
    return value[1:-1] if quoted else value


class _Endpoint(msgspec.Struct, frozen=True):
    interface: str = ""
    region: str | None = None
    region_id: str | None = None
    url: str = ""


class _Service(msgspec.Struct, frozen=True):
    type: str = ""
    endpoints: tuple[_Endpoint, ...] = ()


class _Token(msgspec.Struct, frozen=True):
    catalog: tuple[_Service, ...] = ()


class _Tokens(msgspec.Struct, frozen=True):
    token: _Token = _Token()


class _Server(msgspec.Struct, frozen=True):
    id: str
    name: str = ""


class _Link(msgspec.Struct, frozen=True):
    rel: str = ""


class _Servers(msgspec.Struct, frozen=True):
    servers: tuple[_Server, ...] = ()
    servers_links: tuple[_Link, ...] = ()


class Cloud:
    """A session with a token; made for one act, since acts are minutes apart."""

    def __init__(self, session: aiohttp.ClientSession, credentials: Credentials, token: str, catalog: _Token) -> None:
        self._session = session
        self._credentials = credentials
        self._token = token
        self._catalog = catalog

    async def get(self, what: str, url: URL) -> bytes:
        """Send a GET with the token. Raises CloudError for anything but success."""
        status, body, _ = await _ask(self._session, "GET", url, what, headers={"X-Auth-Token": self._token})
        _check(status, what)
        return body

    async def delete_server(self, name: str) -> bool:
        """Whether there was one; the name has to be exactly this, Nova itself takes it as a pattern."""
        compute = self._endpoint("compute")
        found = [server for server in await self._servers(compute, name) if server.name == name]
        if len(found) > 1:
            raise CloudError(f"expected to list 1 or 0 servers, but got {len(found)}")
        if not found:
            return False
        what, url = "deleting the server", compute / "servers" / found[0].id
        status, _, _ = await _ask(self._session, "DELETE", url, what, headers={"X-Auth-Token": self._token})
        if status != HTTPStatus.NOT_FOUND:
            _check(status, what)
        return True

    async def _servers(self, compute: URL, name: str) -> list[_Server]:
        query = {"name": name, "tenant_id": self._credentials.project}
        found: list[_Server] = []
        for _ in range(MOST_PAGES):
            body = await self.get("listing servers", (compute / "servers" / "detail").with_query(query))
            page = _decoded(body, _Servers, "listing servers")
            found += page.servers
            if not page.servers or all(link.rel != "next" for link in page.servers_links):
                break
            query["marker"] = page.servers[-1].id
        return found

    def _endpoint(self, kind: str) -> URL:
        region = self._credentials.region
        for service in self._catalog.catalog:
            for endpoint in service.endpoints if service.type == kind else ():
                if endpoint.interface == "public" and region in (endpoint.region_id, endpoint.region):
                    return _url(endpoint.url.rstrip("/"), f"the address of {kind} in the catalog")
        raise CloudError(f"the catalog knows no public {kind} endpoint in region {region}")


@asynccontextmanager
async def connected(credentials: Credentials) -> AsyncIterator[Cloud]:
    """Sign in with a password, for the project of the credentials, through the proxy that the environment names."""
    async with aiohttp.ClientSession(timeout=ANSWER_WITHIN, trust_env=True) as session:
        token, catalog = await _signed_in(session, credentials)
        yield Cloud(session, credentials, token, catalog)


async def _signed_in(session: aiohttp.ClientSession, credentials: Credentials) -> tuple[str, _Token]:
    what = "signing in to Keystone"
    url = _url(credentials.auth_url.rstrip("/"), "auth-url")
    if url.name != "v3":
        url /= "v3"
    user = {
        "name": credentials.username,
        "password": credentials.password,
        "domain": {"name": credentials.domain},
    }
    identity = {"methods": ["password"], "password": {"user": user}}
    auth = {"auth": {"identity": identity, "scope": {"project": {"id": credentials.project}}}}
    status, body, headers = await _ask(session, "POST", url / "auth" / "tokens", what, json=auth)
    _check(status, what)
    token = headers.get("X-Subject-Token", "")
    if not token:
        raise CloudError(f"{what}: the answer has no token")
    return token, _decoded(body, _Tokens, what).token


async def _ask(
    session: aiohttp.ClientSession, method: str, url: URL, what: str, **how: Any
) -> tuple[int, bytes, Mapping[str, str]]:
    try:
        # A redirect could carry the token elsewhere.
        async with session.request(method, url, allow_redirects=False, **how) as response:
            return response.status, await read_whole(response, LONGEST_ANSWER), response.headers
    except TimeoutError:
        raise CloudError(f"{what}: {url.host} did not answer in time") from None
    except (aiohttp.ClientError, OSError, TooLong) as error:
        raise CloudError(f"{what}: {url.host} cannot be asked: {error}") from None


def _check(status: int, what: str) -> None:
    """Raise CloudError unless the status is a success. Bodies are not repeated: a foreign server may write anything."""
    if status // 100 != 2:
        words = HTTPStatus(status).phrase if status in {each.value for each in HTTPStatus} else ""
        raise CloudError(f"{what}: the answer was {status} {words}".rstrip())


def _decoded(body: bytes, kind: type[Any], what: str) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise CloudError(f"{what}: the answer cannot be read: {error}") from None


def _url(text: str, what: str) -> URL:
    """Return the URL, or an error that does not repeat what may hold a password."""
    try:
        url = URL(text)
    except ValueError:
        raise CloudError(f"{what} is no URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise CloudError(f"{what} is no URL")
    return url
