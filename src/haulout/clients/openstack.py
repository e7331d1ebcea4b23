"""A small OpenStack client: gets a token of Keystone for a project, and finds and deletes servers of Nova by name."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar

import aiohttp
import msgspec
from yarl import URL

from haulout.clients.body import UNREADABLE, TooLong, decoded, read_whole
from haulout.kube.errors import one_line

SECTION = "Global"
# The field of `Credentials` for each name in the file.
FIELDS = {
    "auth-url": "auth_url",
    "username": "username",
    "password": "password",
    "region": "region",
    "domain-name": "domain",
    "tenant-id": "project",
}
QUOTES = ('"', "'", "`")
# More than a page of servers or hypervisors takes.
LONGEST_ANSWER = 16 * 2**20
ANSWER_WITHIN = aiohttp.ClientTimeout(total=30)
# More pages than any project has. It bounds our work if a server always announces another page.
MOST_PAGES = 1000
SERVER_ID = re.compile(r"[0-9A-Za-z_-]{1,128}")
T = TypeVar("T")


class CloudError(Exception):
    """A request to the cloud failed. The message is one line and holds no secret."""


class Credentials(msgspec.Struct, frozen=True):
    """The credentials for an OpenStack project at Keystone. `repr` does not show the password."""

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
    """Parse `cloudprovider.conf`. Raises CloudError, whose message names keys and lines but no values."""
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
    """A signed-in session with an OpenStack project. It is made for one act, because acts are minutes apart."""

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
        """Delete the server of exactly this name. Return False if there is none.

        Nova takes the name as a pattern, so its answer is filtered.
        """
        compute = self._endpoint("compute")
        found = await self._servers(compute, name)
        if len(found) > 1:
            raise CloudError(f"expected to list 1 or 0 servers, but got {len(found)}")
        if not found:
            return False
        if not SERVER_ID.fullmatch(found[0].id):
            raise CloudError("the id of the server is none")
        what, url = "deleting the server", compute / "servers" / found[0].id
        status, _, _ = await _ask(self._session, "DELETE", url, what, headers={"X-Auth-Token": self._token})
        if status != HTTPStatus.NOT_FOUND:
            _check(status, what)
        return True

    async def _servers(self, compute: URL, name: str) -> list[_Server]:
        """Return the servers of exactly this name. Raises CloudError if the list has no end.

        A server that is missing from half a list must not be taken for deleted.
        """
        query = {"name": name, "tenant_id": self._credentials.project}
        found: list[_Server] = []
        for _ in range(MOST_PAGES):
            body = await self.get("listing servers", (compute / "servers" / "detail").with_query(query))
            page = _decoded(body, _Servers, "listing servers")
            found += [server for server in page.servers if server.name == name]
            if all(link.rel != "next" for link in page.servers_links):
                return found
            if not page.servers:
                break
            query["marker"] = page.servers[-1].id
        raise CloudError("listing servers: the list has no end")

    def _endpoint(self, kind: str) -> URL:
        region = self._credentials.region
        for service in self._catalog.catalog:
            for endpoint in service.endpoints if service.type == kind else ():
                if endpoint.interface == "public" and region in (endpoint.region_id, endpoint.region):
                    return url_of(endpoint.url.rstrip("/"), f"the address of {kind} in the catalog")
        raise CloudError(f"the catalog knows no public {kind} endpoint in region {region}")


@asynccontextmanager
async def connected(credentials: Credentials) -> AsyncIterator[Cloud]:
    """Sign in to the project of the credentials, and yield the session. The proxy that the environment names is used."""
    async with aiohttp.ClientSession(timeout=ANSWER_WITHIN, trust_env=True) as session:
        token, catalog = await _signed_in(session, credentials)
        yield Cloud(session, credentials, token, catalog)


async def _signed_in(session: aiohttp.ClientSession, credentials: Credentials) -> tuple[str, _Token]:
    what = "signing in to Keystone"
    url = url_of(credentials.auth_url.rstrip("/"), "auth-url")
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
        # A redirect is not followed: it could send the token to another server.
        async with session.request(method, url, allow_redirects=False, **how) as response:
            return response.status, await read_whole(response, LONGEST_ANSWER), response.headers
    except TimeoutError:
        raise CloudError(f"{what}: {url.host} did not answer in time") from None
    except (aiohttp.ClientError, OSError, TooLong) as error:
        raise CloudError(f"{what}: {url.host} cannot be asked: {one_line(str(error))}") from None


def _check(status: int, what: str) -> None:
    """Raise CloudError unless the status is a success. The body is not quoted, because a foreign server wrote it."""
    if status // 100 != 2:
        words = HTTPStatus(status).phrase if status in {each.value for each in HTTPStatus} else ""
        raise CloudError(f"{what}: the answer was {status} {words}".rstrip())


def _decoded(body: bytes, kind: type[T], what: str) -> T:
    try:
        return decoded(body, kind)
    except UNREADABLE as error:
        raise CloudError(f"{what}: the answer cannot be read: {one_line(str(error))}") from None


def url_of(text: str, what: str) -> URL:
    """Parse a URL. Raises CloudError without the text, which may contain a password."""
    try:
        url = URL(text)
    except ValueError:
        raise CloudError(f"{what} is no URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise CloudError(f"{what} is no URL")
    return url
