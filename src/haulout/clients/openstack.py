"""A small OpenStack client: gets a token of Keystone for a project, and finds and deletes servers of Nova by name."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TypeVar

import msgspec
from yarl import URL

from haulout.clients.peers import Answer, PeerError, ask

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
# More than the catalog of a large cloud takes, and a page of servers with all their details.
LONGEST_ANSWER = 2 * 2**20
# Seconds for one request.
ANSWER_WITHIN = 30.0
# How many servers a page may have, and more pages than any project has servers whose names begin alike. It bounds our
# work if Nova always announces another page.
PAGE = 20
MOST_PAGES = 500
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
    token: _Token


class _Server(msgspec.Struct, frozen=True):
    id: str
    name: str = ""


class _Link(msgspec.Struct, frozen=True):
    rel: str = ""


class _Servers(msgspec.Struct, frozen=True):
    # An answer without servers is not one of Nova, and must not be taken for an empty list.
    servers: tuple[_Server, ...]
    servers_links: tuple[_Link, ...] = ()


class Cloud:
    """A signed-in session with an OpenStack project. It is made for one act, because acts are minutes apart."""

    def __init__(self, credentials: Credentials, token: str, catalog: _Token) -> None:
        self._credentials = credentials
        self._token = token
        self._catalog = catalog

    async def get(self, what: str, url: URL, kind: type[T]) -> T:
        """Send a GET with the token, and return the answer. Raises CloudError for anything but success."""
        async with _asked("GET", url, what, {"X-Auth-Token": self._token}) as answer:
            _check(answer.status, what)
            return await answer.json(kind, LONGEST_ANSWER)

    async def delete_server(self, name: str) -> bool:
        """Delete the server of exactly this name. Return False if there is none. Raises CloudError if there are several."""
        compute = self._endpoint("compute")
        found = await self._server(compute, name)
        if found is None:
            return False
        if not SERVER_ID.fullmatch(found.id):
            raise CloudError("the id of the server is none")
        what, url = "deleting the server", compute / "servers" / found.id
        async with _asked("DELETE", url, what, {"X-Auth-Token": self._token}) as answer:
            if answer.status != HTTPStatus.NOT_FOUND:
                _check(answer.status, what)
        return True

    async def _server(self, compute: URL, name: str) -> _Server | None:
        """Return the server of exactly this name; None if there is none. Raises CloudError if the list has no end.

        Nova takes the name as a pattern, so its answer is filtered. A server that is missing from half a list must not
        be taken for deleted. The details are asked for as by the original: roles of a project may allow that list alone.
        """
        what = "listing servers"
        query = {"name": name, "tenant_id": self._credentials.project, "limit": str(PAGE)}
        found: _Server | None = None
        for _ in range(MOST_PAGES):
            page = await self.get(what, (compute / "servers" / "detail").with_query(query), _Servers)
            for server in page.servers:
                if server.name == name and found is not None:
                    raise CloudError("expected to list 1 or 0 servers, but got 2 or more")
                found = server if server.name == name else found
            if all(link.rel != "next" for link in page.servers_links):
                return found
            if not page.servers or page.servers[-1].id == query.get("marker"):
                break
            query["marker"] = page.servers[-1].id
        raise CloudError(f"{what}: the list has no end")

    def _endpoint(self, kind: str) -> URL:
        region = self._credentials.region
        for service in self._catalog.catalog:
            for endpoint in service.endpoints if service.type == kind else ():
                if endpoint.interface == "public" and region in (endpoint.region_id, endpoint.region):
                    return url_of(endpoint.url.rstrip("/"), f"the address of {kind} in the catalog")
        raise CloudError(f"the catalog knows no public {kind} endpoint in region {region}")


async def signed_in(credentials: Credentials) -> Cloud:
    """Sign in to the project of the credentials. The proxy that the environment names is used. Raises CloudError."""
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
    headers = {"Content-Type": "application/json"}
    async with _asked("POST", url / "auth" / "tokens", what, headers, msgspec.json.encode(auth)) as answer:
        _check(answer.status, what)
        token = answer.headers.get("X-Subject-Token", "")
        if not token:
            raise CloudError(f"{what}: the answer has no token")
        return Cloud(credentials, token, (await answer.json(_Tokens, LONGEST_ANSWER)).token)


@asynccontextmanager
async def _asked(
    method: str, url: URL, what: str, headers: Mapping[str, str], body: bytes | None = None
) -> AsyncIterator[Answer]:
    try:
        async with ask(f"{what}: {url.host}", method, url, within=ANSWER_WITHIN, headers=headers, data=body) as answer:
            yield answer
    except PeerError as error:
        raise CloudError(str(error)) from None


def _check(status: int, what: str) -> None:
    """Raise CloudError unless the status is a success. The body is not quoted, because a foreign server wrote it."""
    if status // 100 != 2:
        words = HTTPStatus(status).phrase if status in {each.value for each in HTTPStatus} else ""
        raise CloudError(f"{what}: the answer was {status} {words}".rstrip())


def url_of(text: str, what: str) -> URL:
    """Parse a URL. Raises CloudError without the text, which may contain a password."""
    try:
        url = URL(text)
    except ValueError:
        raise CloudError(f"{what} is no URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise CloudError(f"{what} is no URL")
    return url
