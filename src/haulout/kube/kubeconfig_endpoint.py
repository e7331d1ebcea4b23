"""From the entries of a kubeconfig to the endpoint that they describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import msgspec

from haulout.kube.endpoint import (
    SOCKS,
    Basic,
    ClientCertificate,
    ClusterInfo,
    Credential,
    Endpoint,
    ExecPlugin,
    Impersonation,
    Oidc,
    Secret,
    StaticToken,
    TokenFile,
    environment_proxy,
)
from haulout.kube.errors import ConfigInvalid, shorten
from haulout.kube.kubeconfig import Kubeconfig, Place

_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


class Choice(msgspec.Struct, frozen=True):
    """The context, cluster and user to use of a kubeconfig.

    An empty context is the current one. An empty cluster or user is the one that the context names.
    """

    context: str = ""
    cluster: str = ""
    user: str = ""


class _Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[dict[str, Any]] = []


class _User(msgspec.Struct, frozen=True, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None
    act_as: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}


class _Variable(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    api_version: str = ""
    args: list[str] = []
    env: list[_Variable] = []
    install_hint: str = ""
    interactive_mode: str = ""
    provide_cluster_info: bool = False


class _Provider(msgspec.Struct, frozen=True):
    name: str = ""
    config: dict[str, str] = {}


def endpoint_of(kubeconfig: Kubeconfig, choice: Choice, namespace: str, env: Mapping[str, str]) -> Endpoint:
    name = choice.context or kubeconfig.current
    if not name:
        raise ConfigInvalid(f"{kubeconfig}: no current-context (choose one: {kubeconfig.names('context')})")
    context, asked = kubeconfig.entry("context", name, _Context, kubeconfig)
    cluster, place = kubeconfig.entry("cluster", choice.cluster or context.cluster, _Cluster, asked)
    # A context without a user is anonymous.
    user_name = choice.user or context.user
    user, owner = kubeconfig.entry("user", user_name, _User, asked) if user_name else (_User(), asked)
    info = _cluster_info(cluster, place)
    credentials = _credentials(user, owner, info)
    if cluster.proxy_url:
        proxy_url, proxy_login = proxy_of(cluster.proxy_url, str(place))
    else:
        proxy_url, proxy_login = proxy_of(environment_proxy(info.server, env), "environment")
    return Endpoint(
        name=name,
        server=info.server,
        namespace=namespace or context.namespace or "default",
        ca=info.ca,
        insecure=info.insecure,
        tls_server_name=info.tls_server_name,
        proxy_url=proxy_url,
        proxy_login=proxy_login,
        proxy_is_ours=bool(proxy_url) and not cluster.proxy_url,
        compress=info.compress,
        # Credentials are never sent without TLS, as in client-go's DirectClientConfig.
        credentials=credentials if info.server.startswith("https:") else (),
        impersonate=_impersonation(user, owner),
    )


def _cluster_info(cluster: _Cluster, place: Place) -> ClusterInfo:
    ca = place.pem("certificate-authority", cluster.certificate_authority_data, cluster.certificate_authority)
    if ca is not None and cluster.insecure_skip_tls_verify:
        place.refuse("insecure-skip-tls-verify and a certificate-authority exclude each other (keep one)")
    extensions = [item.get("extension") for item in cluster.extensions if item.get("name") == _EXEC_EXTENSION]
    name = cluster.tls_server_name
    if name and not (name.isprintable() and _is_host(name)):
        place.refuse("tls-server-name is no name of a host")
    return ClusterInfo(
        server=_server(cluster.server, place),
        ca=ca,
        insecure=cluster.insecure_skip_tls_verify,
        tls_server_name=name,
        proxy_url=Secret(cluster.proxy_url),
        compress=not cluster.disable_compression,
        config=extensions[-1] if extensions else None,
    )


def _credentials(user: _User, place: Place, cluster: ClusterInfo) -> tuple[Credential, ...]:
    if user.token and (user.username or user.password):
        place.refuse("has a token and a password (keep one)")
    if user.exec is not None and user.auth_provider is not None:
        place.refuse("has an exec plugin and an auth-provider (keep one)")
    header, certificate = tuple(_header(user, place)), tuple(_certificate(user, place))
    plugin = _exec(user.exec, place, cluster) if user.exec is not None else None
    provider = _oidc(user.auth_provider, place) if user.auth_provider is not None else None
    # Credentials in the kubeconfig win over those that have to be fetched, as in client-go.
    if plugin and not header and not certificate:
        return (plugin,)
    if provider and not header:
        return (provider, *certificate)
    return (*header, *certificate)


def _header(user: _User, place: Place) -> Iterator[Credential]:
    if user.token_file:
        yield TokenFile(place.path("tokenFile", user.token_file), Secret(user.token) if user.token else None)
    elif user.token:
        yield StaticToken(Secret(user.token))
    elif user.username or user.password:
        yield Basic(user.username, Secret(user.password))


def _certificate(user: _User, place: Place) -> Iterator[ClientCertificate]:
    certificate = place.pem("client-certificate", user.client_certificate_data, user.client_certificate)
    key = place.pem("client-key", user.client_key_data, user.client_key)
    if certificate is None:
        return
    if key is None:
        place.refuse("has a client-certificate without its key (client-key or client-key-data would be right)")
    yield ClientCertificate(certificate, key if isinstance(key, Path) else Secret(key.decode("latin-1")))


def _exec(raw: dict[str, Any], place: Place, cluster: ClusterInfo) -> ExecPlugin:
    if not place.may_run:
        place.mistrust("has an exec plugin, which a kubeconfig from a Secret must not (token would be right)")
    plugin = place.convert(raw, _Exec, "exec")
    if not plugin.command:
        place.refuse("exec.command is missing")
    if plugin.api_version not in _EXEC_VERSIONS:
        place.refuse(
            f'exec.apiVersion is "{shorten(plugin.api_version)}" ({" or ".join(_EXEC_VERSIONS)} would be right)'
        )
    # v1 requires the mode, v1beta1 does not know it.
    mode = plugin.interactive_mode or ("IfAvailable" if plugin.api_version.endswith("/v1beta1") else "")
    if mode not in _INTERACTIVE_MODES:
        place.refuse(f'exec.interactiveMode is "{shorten(mode)}" ({", ".join(_INTERACTIVE_MODES)} would be right)')
    return ExecPlugin(
        command=_command(plugin.command, place),
        api_version=plugin.api_version,
        args=tuple(plugin.args),
        env=tuple((variable.name, Secret(variable.value)) for variable in plugin.env),
        interactive_mode=mode,
        install_hint=plugin.install_hint,
        cluster=cluster if plugin.provide_cluster_info else None,
    )


def _command(text: str, place: Place) -> str:
    """Return the path of a program. A name without a slash is looked up in PATH, where that is allowed."""
    if "/" not in text or (place.folder is None and text.startswith("/")):
        return text
    return str(place.path("exec.command", text))


def _oidc(raw: dict[str, Any], place: Place) -> Oidc:
    if place.folder is None:
        place.mistrust("has an auth-provider, which a kubeconfig from a Secret must not (token would be right)")
    provider = place.convert(raw, _Provider, "auth-provider")
    if provider.name != "oidc":
        place.refuse(f'auth-provider is "{shorten(provider.name)}" (oidc, or an exec plugin, would be right)')
    config = provider.config
    for key in ("idp-issuer-url", "client-id"):
        if not config.get(key):
            place.refuse(f"auth-provider.config.{key} is missing")
    ca_key = "idp-certificate-authority"
    return Oidc(
        issuer=config["idp-issuer-url"].rstrip("/"),
        client_id=config["client-id"],
        client_secret=Secret(config.get("client-secret", "")),
        id_token=Secret(config.get("id-token", "")),
        refresh_token=Secret(config.get("refresh-token", "")),
        ca=place.pem(ca_key, config.get(f"{ca_key}-data", ""), config.get(ca_key, "")),
    )


def _impersonation(user: _User, place: Place) -> Impersonation | None:
    if not user.act_as and (user.as_uid or user.as_groups or user.as_user_extra):
        place.refuse("has as-uid, as-groups or as-user-extra without a user (as would be right)")
    if not user.act_as:
        return None
    extra = tuple((key, tuple(values)) for key, values in user.as_user_extra.items())
    return Impersonation(user.act_as, tuple(user.as_groups), user.as_uid, extra)


def _server(text: str, place: Place) -> str:
    parts = _split(text)
    if parts is None or parts.scheme not in {"http", "https"}:
        address = "no address" if "@" in text else f'"{shorten(text)}"'
        place.refuse(f"server is {address} (https://host:port would be right)")
    if parts.username or parts.password:
        place.refuse("server has a login in it (username and password of the user would be right)")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def proxy_of(text: str, where: str) -> tuple[str, Basic | None]:
    """Return a proxy's address without its login, and the login. Errors never show the text: it may hold a password."""
    if not text:
        return "", None
    parts = _split(text)
    if parts is None or parts.scheme not in {"http", "https", *SOCKS}:
        problem = f"{shorten(parts.scheme)} is not supported" if parts else "no address"
        right = "http://host:port, https://host:port or socks5://host:port would be right"
        raise ConfigInvalid(f"{where}: proxy-url: {problem} ({right})")
    login = Basic(unquote(parts.username), Secret(unquote(parts.password or ""))) if parts.username else None
    if login and (":" in login.username or not (login.username + login.password.text).isascii()):
        raise ConfigInvalid(f"{where}: proxy-url: the login holds characters that cannot be sent")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", "")), login


def _split(text: str) -> SplitResult | None:
    """Return the parts of a URL; None unless its scheme, host and port are valid."""
    try:
        parts = urlsplit(text)
        usable = bool(parts.scheme and parts.hostname) and parts.port != 0 and _is_host(parts.hostname or "")
    except ValueError:
        return None
    return parts if usable else None


def _is_host(name: str) -> bool:
    """Whether the resolver and TLS can encode a host name. Otherwise they would raise UnicodeError when connecting."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False
