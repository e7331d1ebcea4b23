"""Finds the cluster to talk to: kubeconfig files, the service account of a pod, or a kubeconfig out of a Secret."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from haulout.kube.allowed_addresses import REFUSED, Reach
from haulout.kube.endpoint import (
    ClientCertificate,
    Endpoint,
    ExecPlugin,
    Impersonation,
    Secret,
    TokenFile,
    environment_proxy,
)
from haulout.kube.errors import ConfigInvalid, ConfigRefused
from haulout.kube.kubeconfig import Kubeconfig, read, read_untrusted
from haulout.kube.kubeconfig_endpoint import Choice, endpoint_of, proxy_of
from haulout.kube.tls import CertPair, client_context

# The most CA certificates in a foreign kubeconfig. OpenSSL keeps other threads waiting while it reads them: 83 ms for
# 250 of them, measured.
MOST_AUTHORITIES = 32
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


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
    """Return the endpoint of the cluster to talk to, found in the order of controller-runtime.

    That is: the file `path`, the files in KUBECONFIG, the pod's service account, ~/.kube/config.

    `context`, `cluster`, `user`: the entries to use instead of those that the kubeconfig chooses. If any is named, the
    service account is left out, unless `pod_first`: then a pod uses its service account and ignores them.
    `impersonate`: the user to impersonate instead of the one in the kubeconfig.
    """
    choice = Choice(context, cluster, user)
    found = _find(path, choice, namespace, env, mount, pod_first=pod_first)
    return msgspec.structs.replace(found, impersonate=impersonate) if impersonate else found


def _find(
    path: str, choice: Choice, namespace: str, env: Mapping[str, str], mount: Path, *, pod_first: bool
) -> Endpoint:
    if path:
        return _from_files([Path(path).expanduser()], choice, namespace, env)
    if paths := [Path(item) for item in env.get("KUBECONFIG", "").split(os.pathsep) if item]:
        return _from_files(paths, choice, namespace, env)
    # A service account has no contexts, clusters or users to choose from.
    if (pod_first or choice == Choice()) and _has_service_account(env, mount):
        return in_cluster(namespace=namespace, env=env, mount=mount)
    default = (Path(env["HOME"]) if env.get("HOME") else Path.home()) / ".kube" / "config"
    if not default.exists():
        raise ConfigInvalid(f"no cluster to talk to: no --kubeconfig, no KUBECONFIG, not in a pod, and no {default}")
    return _from_files([default], choice, namespace, env)


def _from_files(paths: Sequence[Path], choice: Choice, namespace: str, env: Mapping[str, str]) -> Endpoint:
    found = [read(path) for path in dict.fromkeys(paths) if len(paths) == 1 or path.exists()]
    if not found:
        raise ConfigInvalid(f"kubeconfig: none of {', '.join(map(str, paths))} exists (see KUBECONFIG)")
    return endpoint_of(Kubeconfig(found), choice, namespace, env)


class Opened(msgspec.Struct, frozen=True):
    """A foreign kubeconfig that has passed all checks.

    `tls`: the TLS context with its certificates; None without TLS, or if an exec plugin supplies the certificate.
    """

    endpoint: Endpoint
    tls: ssl.SSLContext | None


def from_secret(
    data: bytes, *, source: str, reach: Reach, may_run: bool = False, env: Mapping[str, str] = os.environ
) -> Opened:
    """Read a foreign kubeconfig. Raise `ConfigRefused` if it would run a program or read a file of this computer.

    `source`: what messages call the kubeconfig, as in "Secret team-a/workload-kubeconfig".
    `may_run`: its exec plugin is trusted. `reach`: the servers that it may name.
    The call takes some milliseconds, so it should run in a thread.
    """
    endpoint = endpoint_of(Kubeconfig([read_untrusted(data, source, may_run=may_run)]), Choice(), "", env)
    _check_reach(endpoint, reach, source)
    endpoint = msgspec.structs.replace(endpoint, reach=reach)
    return Opened(endpoint, _tls(endpoint, source))


def _check_reach(endpoint: Endpoint, reach: Reach, source: str) -> None:
    """Raise `ConfigRefused` for a server or proxy address that is not allowed. Names are checked when connecting."""
    if endpoint.server.startswith("http:") and not reach.plain_http:
        raise ConfigRefused(f"{source}: its server is one without TLS (https://host:port would be right)")
    proxy = "" if endpoint.proxy_is_ours else endpoint.proxy_url
    for key, url in (("server", endpoint.server), ("proxy-url", proxy)):
        if not reach.allows_host(urlsplit(url).hostname or ""):
            raise ConfigRefused(f"{source}: {key}: {REFUSED}")


def _tls(endpoint: Endpoint, source: str) -> ssl.SSLContext | None:
    """Return the TLS context, made here because this runs in a thread: reading the trusted certificates takes 20 ms."""
    pairs = [
        CertPair(credential.certificate, credential.key.text.encode("latin-1"))
        for credential in endpoint.credentials
        if isinstance(credential, ClientCertificate)
        and isinstance(credential.certificate, bytes)
        and isinstance(credential.key, Secret)
    ]
    if endpoint.server.startswith("http:") or any(
        isinstance(credential, ExecPlugin) for credential in endpoint.credentials
    ):
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
    proxy_url, proxy_login = proxy_of(environment_proxy(server, env), "environment")
    return Endpoint(
        name="in-cluster",
        server=server,
        namespace=namespace or env.get("POD_NAMESPACE") or _text(mount / "namespace") or "default",
        # Without that file the certificates that the system trusts are used, as in client-go's rest.InClusterConfig.
        ca=mount / "ca.crt" if (mount / "ca.crt").exists() else None,
        proxy_url=proxy_url,
        proxy_login=proxy_login,
        credentials=(TokenFile(mount / "token"),),
    )


def _has_service_account(env: Mapping[str, str], mount: Path) -> bool:
    named = env.get("KUBERNETES_SERVICE_HOST") and env.get("KUBERNETES_SERVICE_PORT")
    return bool(named) and (mount / "token").exists()


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
