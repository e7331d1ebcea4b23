"""Where an API server is and how to log in to it, as plain values: equal values mean that nothing changed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from haulout.kube.allowed_addresses import Reach

# PEM data, or the path of a file with it. The file may be replaced at any time.
Pem = bytes | Path
# Schemes of proxies that do not speak HTTP.
SOCKS = ("socks5", "socks5h")


class Secret(msgspec.Struct, frozen=True):
    """A secret text, which `repr` and messages do not show."""

    text: str

    def __repr__(self) -> str:
        return "Secret(…)"


class StaticToken(msgspec.Struct, frozen=True):
    """A credential: a bearer token in the kubeconfig itself."""

    token: Secret


class TokenFile(msgspec.Struct, frozen=True):
    """A credential: a bearer token in a file, such as that of a service account."""

    path: Path
    # The token that is used until the file can be read.
    token: Secret | None = None


class Basic(msgspec.Struct, frozen=True):
    """A credential: a name and a password, for an API server or a proxy."""

    username: str
    password: Secret


class ClientCertificate(msgspec.Struct, frozen=True):
    """A credential: a TLS client certificate and its private key."""

    certificate: Pem
    key: Path | Secret


class ClusterInfo(msgspec.Struct, frozen=True):
    """The description of a cluster that an exec plugin gets if the kubeconfig sets `provideClusterInfo`."""

    server: str
    ca: Pem | None = None
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: Secret = Secret("")
    compress: bool = True
    config: Any = None


class ExecPlugin(msgspec.Struct, frozen=True):
    """A credential: a program that prints a token or a certificate when it is run, as kubeconfigs name it under `exec`.

    `env`: what is added to the environment of the program.
    `install_hint`: what to tell people when the program is missing.
    `cluster`: what the program is told about the API server; None where the kubeconfig does not ask for that.
    """

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, Secret], ...] = ()
    # "Never", "IfAvailable" or "Always".
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster: ClusterInfo | None = None

    def __repr__(self) -> str:
        # The arguments are secret: some plugins take their keys as arguments.
        return f"ExecPlugin({self.command!r})"


class Oidc(msgspec.Struct, frozen=True):
    """A credential: an ID token of an OpenID Connect issuer, renewed with the refresh token."""

    issuer: str
    client_id: str
    client_secret: Secret = Secret("")
    id_token: Secret = Secret("")
    refresh_token: Secret = Secret("")
    ca: Pem | None = None


Credential = StaticToken | TokenFile | Basic | ClientCertificate | ExecPlugin | Oidc


class Impersonation(msgspec.Struct, frozen=True):
    """The user on whose behalf requests are made, as kubectl's --as and --as-group."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def impersonation(user: str, groups: Iterable[str] = ()) -> Impersonation | None:
    """Return the headers that impersonate a user; None without a user."""
    return Impersonation(user, tuple(groups)) if user else None


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An API server and how to reach it: address, trust, proxy and credentials."""

    # The name of the context, or what a person would call the endpoint otherwise.
    name: str
    # Scheme, host, port and perhaps a path; no slash at its end, no login in it.
    server: str
    namespace: str = "default"
    # The certificate authorities of the server. None: those that the system trusts.
    ca: Pem | None = None
    insecure: bool = False
    tls_server_name: str = ""
    # The address of the proxy, without its login, which is in `proxy_login`.
    proxy_url: str = ""
    proxy_login: Basic | None = None
    # Whether the proxy comes from our own environment, and not from the kubeconfig.
    proxy_is_ours: bool = False
    # None: every address may be connected to.
    reach: Reach | None = None
    # Whether answers may come compressed; over loopback they never do.
    compress: bool = True
    # At most one credential with a header and one with a client certificate. Without any, requests are anonymous.
    credentials: tuple[Credential, ...] = ()
    impersonate: Impersonation | None = None


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def environment_proxy(url: str, env: Mapping[str, str]) -> str:
    """Return the proxy of HTTPS_PROXY, HTTP_PROXY and NO_PROXY, by Go's rules (golang.org/x/net/http/httpproxy)."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    name = f"{parts.scheme}_proxy"
    proxy = env.get(name.upper()) or env.get(name) or ""
    excluded = env.get("NO_PROXY") or env.get("no_proxy") or ""
    if (
        not proxy
        or is_loopback(host)
        or any(_excludes(rule.strip().lower(), host, port) for rule in excluded.split(","))
    ):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _excludes(rule: str, host: str, port: int) -> bool:
    if rule in {"", "*"}:
        return rule == "*"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    try:
        network = ipaddress.ip_network(rule, strict=False)
    except ValueError:
        pass
    else:
        return address is not None and address in network
    name, _, only_port = rule.partition(":")
    if only_port and only_port != str(port):
        return False
    # ".example.org" means the names below it, "example.org" the name itself too.
    return host == name or host.endswith("." + name.removeprefix("*").removeprefix("."))
