"""Finds the cluster to talk to: kubeconfig files, the service account of a pod, or a kubeconfig out of a Secret."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import msgspec

from haulout.kube.allowed_addresses import REFUSED, Reach
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
from haulout.kube.errors import ConfigInvalid, ConfigRefused, shortened
from haulout.kube.kubeconfig import Kubeconfig, Place, read, read_untrusted
from haulout.kube.tls import CertPair, client_context

# OpenSSL keeps other threads waiting while it reads authorities: 250 of them for 83 ms, measured.
MOST_AUTHORITIES = 32
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


def own_namespace() -> str:
    """Return the namespace of the pod that the process runs in; empty outside of a pod."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError:
        return ""


def load(
    *,
    path: str = "",
    context: str = "",
    cluster: str = "",
    user: str = "",
    namespace: str = "",
    impersonate: Impersonation | None = None,
    pod_first: bool = False,
    env: Mapping[str, str] = os.environ,
    mount: Path = SERVICE_ACCOUNT,
) -> Endpoint:
    """Load in controller-runtime's order: the file named, KUBECONFIG, the pod's service account, ~/.kube/config.

    `impersonate` stands in for whatever a kubeconfig says about it. A context is looked for in files alone, unless
    `pod_first`: then it means nothing in a pod. `cluster` and `user` stand in for those that the context names.
    """
    choice = _Choice(context, cluster, user)
    found = _find(path, choice, namespace, env, mount, pod_first=pod_first)
    return msgspec.structs.replace(found, impersonate=impersonate) if impersonate else found


class _Choice(msgspec.Struct, frozen=True):
    """What is chosen of a kubeconfig; what is empty is what its context says."""

    context: str = ""
    cluster: str = ""
    user: str = ""


def _find(
    path: str, choice: _Choice, namespace: str, env: Mapping[str, str], mount: Path, *, pod_first: bool
) -> Endpoint:
    if path:
        return _from_files([Path(path).expanduser()], choice, namespace, env)
    if listed := [Path(item) for item in env.get("KUBECONFIG", "").split(os.pathsep) if item]:
        return _from_files(listed, choice, namespace, env)
    # A choice can only be meant for a file.
    if (pod_first or choice == _Choice()) and _has_service_account(env, mount):
        return in_cluster(namespace=namespace, env=env, mount=mount)
    default = (Path(env["HOME"]) if env.get("HOME") else Path.home()) / ".kube" / "config"
    if not default.exists():
        raise ConfigInvalid(f"no cluster to talk to: no --kubeconfig, no KUBECONFIG, not in a pod, and no {default}")
    return _from_files([default], choice, namespace, env)


def from_files(
    paths: Sequence[Path], *, context: str = "", namespace: str = "", env: Mapping[str, str] = os.environ
) -> Endpoint:
    """Load files. Of several, those that do not exist are passed over; a single one must be there."""
    return _from_files(paths, _Choice(context), namespace, env)


def _from_files(paths: Sequence[Path], choice: _Choice, namespace: str, env: Mapping[str, str]) -> Endpoint:
    found = [read(path) for path in dict.fromkeys(paths) if len(paths) == 1 or path.exists()]
    if not found:
        raise ConfigInvalid(f"kubeconfig: none of {', '.join(map(str, paths))} exists (see KUBECONFIG)")
    return _endpoint(Kubeconfig(found), choice, namespace, env)


class Opened(msgspec.Struct, frozen=True):
    """A kubeconfig that can be used. `tls`: made of its certificates; None where they are not known yet."""

    endpoint: Endpoint
    tls: ssl.SSLContext | None


def from_secret(
    data: bytes, *, source: str, reach: Reach, may_run: bool = False, env: Mapping[str, str] = os.environ
) -> Opened:
    """Read a foreign kubeconfig, and refuse one that would run a program or read a file of this computer.

    `source` names it in messages, as in "Secret team-a/workload-kubeconfig". `may_run`: its exec plugin is trusted.
    `reach` says which servers it may name. It takes some milliseconds, so that it belongs into a thread.
    """
    endpoint = _endpoint(Kubeconfig([read_untrusted(data, source, may_run=may_run)]), _Choice(), "", env)
    _check_reach(endpoint, reach, source)
    endpoint = msgspec.structs.replace(endpoint, reach=reach)
    return Opened(endpoint, _tls(endpoint, source))


def _check_reach(endpoint: Endpoint, reach: Reach, source: str) -> None:
    """Refuse addresses that stand there as such. Names are checked when they are connected to."""
    if endpoint.server.startswith("http:") and not reach.plain_http:
        raise ConfigRefused(f"{source}: its server is one without TLS (https://host:port would be right)")
    proxy = "" if endpoint.proxy_is_ours else endpoint.proxy_url
    for key, url in (("server", endpoint.server), ("proxy-url", proxy)):
        if not reach.allows_host(urlsplit(url).hostname or ""):
            raise ConfigRefused(f"{source}: {key}: {REFUSED}")


def _tls(endpoint: Endpoint, source: str) -> ssl.SSLContext | None:
    """Make the TLS context in this thread: reading the computer's trusted certificates takes 20 ms."""
    pairs = [
        CertPair(shown.certificate, shown.key.text.encode("latin-1"))
        for shown in endpoint.credentials
        if isinstance(shown, ClientCertificate)
        and isinstance(shown.certificate, bytes)
        and isinstance(shown.key, Secret)
    ]
    if endpoint.server.startswith("http:") or any(isinstance(shown, ExecPlugin) for shown in endpoint.credentials):
        return None
    ca = endpoint.ca if isinstance(endpoint.ca, bytes) else None
    if ca is not None and ca.count(b"-----BEGIN") > MOST_AUTHORITIES:
        raise ConfigRefused(
            f"{source}: certificate-authority-data: there are more than {MOST_AUTHORITIES} certificates in it "
            "(those of the server's own authorities would be right)"
        )
    return client_context(ca=ca, insecure=endpoint.insecure, pair=pairs[0] if pairs else None, where=source)


def in_cluster(*, namespace: str = "", env: Mapping[str, str] = os.environ, mount: Path = SERVICE_ACCOUNT) -> Endpoint:
    if not _has_service_account(env, mount):
        raise ConfigInvalid(
            "in-cluster configuration: no pod with a service account "
            f"(KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT and {mount}/token would have to be there)"
        )
    host = env["KUBERNETES_SERVICE_HOST"]
    server = f"https://{f'[{host}]' if ':' in host else host}:{env['KUBERNETES_SERVICE_PORT']}"
    proxy_url, proxy_login = _proxy(environment_proxy(server, env), "environment")
    return Endpoint(
        name="in-cluster",
        server=server,
        namespace=namespace or env.get("POD_NAMESPACE") or _text(mount / "namespace") or "default",
        # Without that file the computer's own trusted certificates count, as in client-go's rest.InClusterConfig.
        ca=mount / "ca.crt" if (mount / "ca.crt").exists() else None,
        proxy_url=proxy_url,
        proxy_login=proxy_login,
        credentials=(TokenFile(mount / "token"),),
    )


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


def _endpoint(kubeconfig: Kubeconfig, choice: _Choice, namespace: str, env: Mapping[str, str]) -> Endpoint:
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
        proxy_url, proxy_login = _proxy(cluster.proxy_url, str(place))
    else:
        proxy_url, proxy_login = _proxy(environment_proxy(info.server, env), "environment")
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
        # Never in the clear, as in client-go's DirectClientConfig.
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
    # What stands there in plain wins over what would have to be fetched, as in client-go.
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
            f'exec.apiVersion is "{shortened(plugin.api_version)}" ({" or ".join(_EXEC_VERSIONS)} would be right)'
        )
    # v1 asks for the mode, v1beta1 is older than it.
    mode = plugin.interactive_mode or ("IfAvailable" if plugin.api_version.endswith("/v1beta1") else "")
    if mode not in _INTERACTIVE_MODES:
        place.refuse(f'exec.interactiveMode is "{shortened(mode)}" ({", ".join(_INTERACTIVE_MODES)} would be right)')
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
        place.refuse(f'auth-provider is "{shortened(provider.name)}" (oidc, or an exec plugin, would be right)')
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
        shown = "no address" if "@" in text else f'"{shortened(text)}"'
        place.refuse(f"server is {shown} (https://host:port would be right)")
    if parts.username or parts.password:
        place.refuse("server has a login in it (username and password of the user would be right)")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def _proxy(text: str, where: str) -> tuple[str, Basic | None]:
    """Return the address and, apart from it, the login. The text is never shown: it may hold a password."""
    if not text:
        return "", None
    parts = _split(text)
    if parts is None or parts.scheme not in {"http", "https", *SOCKS}:
        problem = f"{shortened(parts.scheme)} is not supported" if parts else "no address"
        right = "http://host:port, https://host:port or socks5://host:port would be right"
        raise ConfigInvalid(f"{where}: proxy-url: {problem} ({right})")
    login = Basic(unquote(parts.username), Secret(unquote(parts.password or ""))) if parts.username else None
    if login and (":" in login.username or not (login.username + login.password.text).isascii()):
        raise ConfigInvalid(f"{where}: proxy-url: the login holds characters that cannot be sent")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", "")), login


def _split(text: str) -> SplitResult | None:
    """Return the parts of an address; None unless scheme, host and port can be ones."""
    try:
        parts = urlsplit(text)
        usable = bool(parts.scheme and parts.hostname) and parts.port != 0 and _is_host(parts.hostname or "")
    except ValueError:
        return None
    return parts if usable else None


def _is_host(name: str) -> bool:
    """Whether resolver and TLS can encode a name. The error that they would end with is none of a connection."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def _has_service_account(env: Mapping[str, str], mount: Path) -> bool:
    named = env.get("KUBERNETES_SERVICE_HOST") and env.get("KUBERNETES_SERVICE_PORT")
    return bool(named) and (mount / "token").exists()


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
