"""Kubeconfig loading: order, merging, credentials, refusals and their messages."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import trustme
import yaml

from haulout.kube.allowed_addresses import Reach
from haulout.kube.config import from_secret, in_cluster, load
from haulout.kube.endpoint import (
    Basic,
    ClientCertificate,
    ClusterInfo,
    Endpoint,
    ExecPlugin,
    Impersonation,
    Oidc,
    Secret,
    StaticToken,
    TokenFile,
    environment_proxy,
    impersonation,
)
from haulout.kube.errors import ConfigInvalid, ConfigRefused

PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
PEM64 = base64.b64encode(PEM).decode()
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "log-in", "interactiveMode": "Never"}


def kubeconfig(
    name: str = "a", *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **top: Any
) -> dict[str, Any]:
    """Return a complete kubeconfig whose context, cluster and user are all called `name`."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"} | (cluster or {})}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    } | top


def write(path: Path, content: dict[str, Any] | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else yaml.safe_dump(content).encode())
    return path


def from_files(paths: Sequence[Path], *, env: Mapping[str, str] = {}, **options: Any) -> Endpoint:
    return load(env={**env, "KUBECONFIG": os.pathsep.join(map(str, paths))}, **options)


def read(tmp_path: Path, content: dict[str, Any] | bytes, **options: Any) -> Endpoint:
    return from_files([write(tmp_path / "config", content)], **options)


def secret(content: dict[str, Any] | bytes) -> Endpoint:
    data = content if isinstance(content, bytes) else yaml.safe_dump(content).encode()
    return from_secret(data, source="Secret x/y", reach=Reach(plain_http=True), env={}).endpoint


def trusted(content: dict[str, Any]) -> Endpoint:
    """Return the endpoint of a kubeconfig whose author may let programs run."""
    return from_secret(
        yaml.safe_dump(content).encode(), source="Secret x/y", reach=Reach(), may_run=True, env={}
    ).endpoint


def issued() -> tuple[bytes, bytes, bytes]:
    """Return an authority, a certificate that it signed, and the key of that."""
    authority = trustme.CA()
    leaf = authority.issue_cert("jane@example.org")
    return authority.cert_pem.bytes(), leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes()


def coded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def pod(tmp_path: Path, host: str = "10.0.0.1") -> tuple[Path, dict[str, str]]:
    mount = tmp_path / "serviceaccount"
    write(mount / "token", b"t")
    write(mount / "ca.crt", PEM)
    write(mount / "namespace", b"haulout-system\n")
    return mount, {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}


class TestOrder:
    def test_the_file_named_wins_over_everything(self, tmp_path: Path) -> None:
        mount, env = pod(tmp_path)
        env["KUBECONFIG"] = str(write(tmp_path / "listed", kubeconfig("listed")))
        named = write(tmp_path / "named", kubeconfig("named"))
        assert load(path=str(named), env=env, mount=mount).name == "named"

    def test_kubeconfig_wins_over_the_pod(self, tmp_path: Path) -> None:
        mount, env = pod(tmp_path)
        env["KUBECONFIG"] = str(write(tmp_path / "listed", kubeconfig("listed")))
        assert load(env=env, mount=mount).name == "listed"

    def test_the_pod_wins_over_the_home_folder(self, tmp_path: Path) -> None:
        mount, env = pod(tmp_path)
        write(tmp_path / ".kube" / "config", kubeconfig("home"))
        assert load(env=env, mount=mount).name == "in-cluster"

    def test_a_context_is_looked_for_in_files(self, tmp_path: Path) -> None:
        mount, env = pod(tmp_path)
        write(tmp_path / ".kube" / "config", kubeconfig("home"))
        assert load(context="home", env=env, mount=mount).name == "home"

    def test_unless_the_pod_comes_first(self, tmp_path: Path) -> None:
        mount, env = pod(tmp_path)
        write(tmp_path / ".kube" / "config", kubeconfig("home"))
        assert load(context="home", pod_first=True, env=env, mount=mount).name == "in-cluster"
        assert load(context="home", pod_first=True, env=env, mount=tmp_path / "none").name == "home"
        env["KUBECONFIG"] = str(write(tmp_path / "listed", kubeconfig("home", cluster={"server": "https://listed"})))
        assert load(context="home", pod_first=True, env=env, mount=mount).server == "https://listed"

    def test_the_home_folder_comes_last(self, tmp_path: Path) -> None:
        write(tmp_path / ".kube" / "config", kubeconfig("home"))
        assert load(env={"HOME": str(tmp_path), "KUBECONFIG": ""}, mount=tmp_path / "none").name == "home"

    @pytest.mark.parametrize("own", [{}, {"as": "other", "as-groups": ["h"]}], ids=["none of its own", "its own"])
    def test_impersonation_that_is_asked_for_wins(self, tmp_path: Path, own: dict[str, Any]) -> None:
        named = write(tmp_path / "named", kubeconfig(user=own))
        asked = impersonation("deputy", ["g"])
        assert load(path=str(named), impersonate=asked, env={}).impersonate == Impersonation("deputy", ("g",))
        mount, env = pod(tmp_path)
        assert load(impersonate=asked, env=env, mount=mount).impersonate == asked

    def test_a_file_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigInvalid, match=r"/none: kubeconfig cannot be read: No such file or directory$"):
            load(path=str(tmp_path / "none"), env={})

    def test_nothing_anywhere(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigInvalid, match=r"^no cluster to talk to: .* and no .*/\.kube/config$"):
            load(env={"HOME": str(tmp_path)}, mount=tmp_path)


class TestMerge:
    def test_first_wins_per_name_and_for_the_current_context(self, tmp_path: Path) -> None:
        first = kubeconfig("a", user={"token": "one"}) | {"current-context": ""}
        second = kubeconfig("a", cluster={"server": "https://other"}, user={"token": "two", "as": "jane"})
        endpoint = from_files([write(tmp_path / "1", first), write(tmp_path / "2", second)])
        assert endpoint == Endpoint(name="a", server="https://a:6443", credentials=(StaticToken(Secret("one")),))

    def test_entries_may_stand_in_different_files(self, tmp_path: Path) -> None:
        files = [
            write(tmp_path / key, {key: value})
            for key, value in kubeconfig("a").items()
            if key not in {"kind", "apiVersion"}
        ]
        assert from_files(files).server == "https://a:6443"

    def test_files_of_a_list_may_be_missing_but_not_all(self, tmp_path: Path) -> None:
        there = write(tmp_path / "there", kubeconfig("a"))
        assert from_files([tmp_path / "no", there]).name == "a"
        with pytest.raises(ConfigInvalid, match=r"none of .*/no, .*/neither exists"):
            from_files([tmp_path / "no", tmp_path / "neither"])

    def test_paths_are_relative_to_the_file_they_stand_in(self, tmp_path: Path) -> None:
        user = {"tokenFile": "token", "client-certificate": "../c.crt", "client-key": "/abs/c.key"}
        content = kubeconfig("a", cluster={"certificate-authority": "pki/ca.crt"}, user=user)
        first, second = write(tmp_path / "x" / "1", kubeconfig("b")), write(tmp_path / "y" / "2", content)
        endpoint = from_files([first, second], context="a")
        assert endpoint.ca == tmp_path / "y" / "pki" / "ca.crt"
        assert endpoint.credentials == (
            TokenFile(tmp_path / "y" / "token"),
            ClientCertificate(tmp_path / "y" / ".." / "c.crt", Path("/abs/c.key")),
        )

    def test_a_broken_neighbour_harms_nobody(self, tmp_path: Path) -> None:
        content = kubeconfig("a")
        content["users"].append({"name": "b", "user": {"token": 5}})
        assert read(tmp_path, content).name == "a"


class TestContext:
    @pytest.mark.parametrize(
        "options, context, namespace",
        [
            pytest.param({}, {}, "default", id="default"),
            pytest.param({}, {"namespace": "n"}, "n", id="of-the-context"),
            pytest.param({"namespace": "o"}, {"namespace": "n"}, "o", id="override"),
        ],
    )
    def test_namespace(self, tmp_path: Path, options: dict[str, str], context: dict[str, str], namespace: str) -> None:
        content = kubeconfig("a", contexts=[{"name": "a", "context": {"cluster": "a", "user": "a"} | context}])
        assert read(tmp_path, content, **options).namespace == namespace

    def test_no_user_is_anonymous(self, tmp_path: Path) -> None:
        assert read(tmp_path, kubeconfig("a", contexts=[{"name": "a", "context": {"cluster": "a"}}])).credentials == ()


@pytest.mark.parametrize(
    "user, credentials",
    [
        pytest.param({"token": "t"}, (StaticToken(Secret("t")),), id="token"),
        pytest.param({"tokenFile": "/t"}, (TokenFile(Path("/t")),), id="token-file"),
        pytest.param(
            {"tokenFile": "/t", "token": "u"}, (TokenFile(Path("/t"), Secret("u")),), id="token-until-the-file-is-there"
        ),
        pytest.param({"username": "u", "password": "p"}, (Basic("u", Secret("p")),), id="basic"),
        pytest.param(
            {"client-certificate": "/no", "client-certificate-data": PEM64, "client-key-data": PEM64},
            (ClientCertificate(PEM, Secret(PEM.decode())),),
            id="data-win-over-files",
        ),
        pytest.param(
            {"token": "t", "client-certificate": "/c", "client-key": "/k"},
            (StaticToken(Secret("t")), ClientCertificate(Path("/c"), Path("/k"))),
            id="token-and-certificate",
        ),
        pytest.param({"token": "t", "exec": EXEC}, (StaticToken(Secret("t")),), id="token-wins-over-exec"),
        pytest.param({"token": None, "username": None, "exec": None}, (), id="nulls"),
        pytest.param(
            {"exec": EXEC | {"args": ["x"], "env": [{"name": "A", "value": "b"}], "installHint": "get it"}},
            (
                ExecPlugin(
                    "log-in",
                    EXEC["apiVersion"],
                    args=("x",),
                    env=(("A", Secret("b")),),
                    interactive_mode="Never",
                    install_hint="get it",
                ),
            ),
            id="exec",
        ),
        pytest.param(
            {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1beta1",
                    "command": "/x",
                    "args": None,
                    "env": None,
                }
            },
            (ExecPlugin("/x", "client.authentication.k8s.io/v1beta1"),),
            id="exec-v1beta1-with-nulls",
        ),
        pytest.param(
            {
                "auth-provider": {
                    "name": "oidc",
                    "config": {
                        "idp-issuer-url": "https://i/",
                        "client-id": "c",
                        "client-secret": "s",
                        "id-token": "i",
                        "refresh-token": "r",
                        "idp-certificate-authority-data": PEM64,
                    },
                }
            },
            (Oidc("https://i", "c", Secret("s"), Secret("i"), Secret("r"), PEM),),
            id="oidc",
        ),
    ],
)
def test_credentials(tmp_path: Path, user: dict[str, Any], credentials: tuple[object, ...]) -> None:
    assert read(tmp_path, kubeconfig(user=user)).credentials == credentials


def test_credentials_are_not_sent_in_the_clear(tmp_path: Path) -> None:
    content = kubeconfig(cluster={"server": "http://localhost:8080"}, user={"token": "t"})
    assert read(tmp_path, content).credentials == ()


def test_exec_command_with_a_slash_is_relative_to_the_file(tmp_path: Path) -> None:
    (plugin,) = read(tmp_path, kubeconfig(user={"exec": EXEC | {"command": "bin/log-in"}})).credentials
    assert isinstance(plugin, ExecPlugin)
    assert plugin.command == str(tmp_path / "bin" / "log-in")


def test_exec_plugin_is_told_of_the_cluster_where_it_asks(tmp_path: Path) -> None:
    cluster = {
        "server": "https://a:1/",
        "tls-server-name": "n",
        "certificate-authority-data": PEM64,
        "disable-compression": True,
        "proxy-url": "http://u:p@proxy:3128",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}],
    }
    content = kubeconfig(cluster=cluster, user={"exec": EXEC | {"provideClusterInfo": True}})
    (plugin,) = read(tmp_path, content).credentials
    assert isinstance(plugin, ExecPlugin)
    assert plugin.cluster == ClusterInfo(
        "https://a:1", PEM, tls_server_name="n", proxy_url=Secret("http://u:p@proxy:3128"), compress=False,
        config={"audience": "x"},
    )  # fmt: skip


def test_cluster_fields(tmp_path: Path) -> None:
    cluster = {
        "server": "https://host:6443/k8s/clusters/c-1/?x=1",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "api.internal",
        "proxy-url": "https://us%40er:p%3Aw@proxy:3128",
        "disable-compression": True,
    }
    endpoint = read(tmp_path, kubeconfig(cluster=cluster))
    assert endpoint == Endpoint(
        name="a",
        server="https://host:6443/k8s/clusters/c-1",
        insecure=True,
        tls_server_name="api.internal",
        proxy_url="https://proxy:3128",
        proxy_login=Basic("us@er", Secret("p:w")),
        compress=False,
    )


def test_impersonation(tmp_path: Path) -> None:
    user = {"as": "jane", "as-uid": "1", "as-groups": ["g", "h"], "as-user-extra": {"k": ["v", "w"]}}
    assert read(tmp_path, kubeconfig(user=user)).impersonate == Impersonation(
        "jane", ("g", "h"), "1", (("k", ("v", "w")),)
    )


class TestInCluster:
    @pytest.mark.parametrize(
        "host, server",
        [
            pytest.param("10.0.0.1", "https://10.0.0.1:443", id="v4"),
            pytest.param("fd00::1", "https://[fd00::1]:443", id="v6"),
            pytest.param("kubernetes.default", "https://kubernetes.default:443", id="name"),
        ],
    )
    def test_address(self, tmp_path: Path, host: str, server: str) -> None:
        mount, env = pod(tmp_path, host)
        assert in_cluster(env=env, mount=mount) == Endpoint(
            name="in-cluster",
            server=server,
            namespace="haulout-system",
            ca=mount / "ca.crt",
            credentials=(TokenFile(mount / "token"),),
        )

    def test_namespace_override(self, tmp_path: Path) -> None:
        mount, env = pod(tmp_path)
        assert in_cluster(env=env | {"POD_NAMESPACE": "p"}, mount=mount).namespace == "p"
        assert in_cluster(env=env | {"POD_NAMESPACE": "p"}, mount=mount, namespace="o").namespace == "o"

    def test_without_ca_the_machine_is_trusted(self, tmp_path: Path) -> None:
        mount, env = pod(tmp_path)
        (mount / "ca.crt").unlink()
        assert in_cluster(env=env, mount=mount).ca is None

    def test_outside_of_a_pod(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigInvalid, match=r"^in-cluster configuration: no pod .*KUBERNETES_SERVICE_HOST"):
            in_cluster(env={}, mount=tmp_path)


REFUSALS = [
    pytest.param(b"a: [\n", r":2:1: not YAML: did not find expected node content", id="open-list"),
    pytest.param(b"a: b: c", r":1:5: not YAML: mapping values are not allowed", id="two-colons"),
    pytest.param(b"a: 1\nb: \x00", r":2:4: not YAML: control characters", id="control-character"),
    pytest.param(b"a: !!python/object:os.system 1", r"no current-context", id="tag"),
    pytest.param(b"current-context: [" + b"9" * 5000 + b"]", r"current-context is not a text", id="endless-number"),
    *(
        pytest.param(f"a: {text}".encode(), r":1:4: not YAML: a value is not as its tag says$", id=text)
        for text in ("!!bool x", '!!int ""', '!!float ""')
    ),
    pytest.param(b"- a", r"not a kubeconfig", id="list"),
    pytest.param({"kind": "Secret"}, r"not a kubeconfig \(kind: Config would be right\)", id="other-kind"),
    pytest.param({}, r"no current-context \(choose one: -\)", id="empty"),
    pytest.param(kubeconfig("a") | {"current-context": ""}, r"no current-context \(choose one: a\)", id="none-chosen"),
    pytest.param(kubeconfig("a") | {"current-context": 5}, r"current-context is not a text", id="number-as-context"),
    pytest.param(
        kubeconfig("a") | {"current-context": "b"}, r'no context is called "b" \(there is: a\)', id="unknown-context"
    ),
    pytest.param(kubeconfig("a", users=[]), r'context "a": no user is called "a" \(there is: -\)', id="unknown-user"),
    pytest.param(kubeconfig("a", clusters=[]), r'context "a": no cluster is called "a"', id="unknown-cluster"),
    pytest.param(kubeconfig("a", users={"a": {}}), r"users is not a list", id="mapping-for-list"),
    pytest.param(kubeconfig("a", users=[{"name": "a"}] * 2), r'user "a" is set twice', id="twice"),
    pytest.param(kubeconfig("a", users=[{"name": 5}]), r"users\[0\] has no name", id="number-as-name"),
    pytest.param(kubeconfig("a", users=[{"name": "a", "user": "x"}]), r'user "a": user is not a mapping', id="text"),
    pytest.param(kubeconfig(cluster={"server": ""}), r'cluster "a": server is "" \(https://host:port', id="no-server"),
    pytest.param(kubeconfig(cluster={"server": "h:1"}), r'server is "h:1" \(https://', id="server-without-scheme"),
    pytest.param(kubeconfig(cluster={"server": "https://h:x"}), r'server is "https://h:x"', id="bad-port"),
    *(
        pytest.param(kubeconfig(cluster={"server": f"https://{host}"}), r'server is "https://', id=f"host-{number}")
        for number, host in enumerate(("a..b:6443", ".example:6443", "a" * 64))
    ),
    *(
        pytest.param(kubeconfig(cluster={"tls-server-name": name}), r"tls-server-name is no name", id=f"name-{number}")
        for number, name in enumerate(("a..b", ".example", "a" * 64, "a\0b"))
    ),
    pytest.param(kubeconfig(cluster={"server": "https://u:hush@h"}), r"server has a login in it", id="server-login"),
    pytest.param(kubeconfig(cluster={"server": "https://u:hush@h:x"}), r"server is no address", id="bad-server-login"),
    pytest.param(
        kubeconfig(cluster={"proxy-url": "socks4://u:hush@p:1"}),
        r'cluster "a": proxy-url: socks4 is not supported \(http://host:port, https://host:port or socks5://host:port',
        id="socks4",
    ),
    pytest.param(kubeconfig(cluster={"proxy-url": "hush"}), r"proxy-url: no address", id="proxy-without-scheme"),
    pytest.param(kubeconfig(cluster={"proxy-url": "http://hush..b"}), r"proxy-url: no address", id="proxy-host"),
    *(
        pytest.param(kubeconfig(cluster={"proxy-url": f"http://{login}@p"}), r"proxy-url: the login holds", id=login)
        for login in ("hush%3A", "u:hush%E2%98%83")
    ),
    pytest.param(
        kubeconfig(cluster={"certificate-authority-data": "hush!"}),
        r'cluster "a": certificate-authority-data is not base64',
        id="ca-not-base64",
    ),
    pytest.param(
        kubeconfig(cluster={"certificate-authority-data": PEM64, "insecure-skip-tls-verify": True}),
        r"exclude each other",
        id="ca-and-insecure",
    ),
    pytest.param(
        kubeconfig(cluster={"insecure-skip-tls-verify": "yes"}),
        r'cluster "a": insecure-skip-tls-verify: Expected bool, got str$',
        id="text-for-bool",
    ),
    pytest.param(kubeconfig(user={"token": 12345}), r'user "a": token: Expected str, got int$', id="number-as-token"),
    pytest.param(
        kubeconfig(user={"exec": EXEC | {"args": ["a", 5]}}),
        r'user "a": exec.args\[1\]: Expected str, got int$',
        id="number-as-argument",
    ),
    pytest.param(kubeconfig(user={"token": "hush", "password": "hush"}), r"token and a password", id="two-methods"),
    pytest.param(
        kubeconfig(user={"client-certificate-data": PEM64}), r'user "a": has a client-certificate without', id="no-key"
    ),
    pytest.param(kubeconfig(user={"exec": EXEC | {"command": ""}}), r"exec.command is missing", id="no-command"),
    pytest.param(
        kubeconfig(user={"exec": EXEC | {"apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
        r'exec.apiVersion is "client.authentication.k8s.io/v1alpha1" \(client.authentication.k8s.io/v1 or',
        id="old-exec",
    ),
    pytest.param(
        kubeconfig(user={"exec": {k: v for k, v in EXEC.items() if k != "interactiveMode"}}),
        r'exec.interactiveMode is "" \(Never, IfAvailable, Always would be right\)',
        id="v1-without-mode",
    ),
    pytest.param(
        kubeconfig(user={"exec": EXEC, "auth-provider": {"name": "oidc"}}),
        r"exec plugin and an auth-provider",
        id="exec-and-provider",
    ),
    pytest.param(
        kubeconfig(user={"auth-provider": {"name": "gcp"}}),
        r'auth-provider is "gcp" \(oidc, or an exec plugin',
        id="gcp",
    ),
    pytest.param(
        kubeconfig(user={"auth-provider": {"name": "oidc", "config": {"client-id": "c"}}}),
        r"auth-provider.config.idp-issuer-url is missing",
        id="no-issuer",
    ),
    pytest.param(kubeconfig(user={"as-groups": ["g"]}), r"without a user \(as would be right\)", id="groups-alone"),
]


@pytest.mark.parametrize("content, message", REFUSALS)
def test_refusals_are_one_line_with_the_place(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(ConfigInvalid, match=message) as caught:
        read(tmp_path, content)
    text = str(caught.value)
    assert text.startswith(str(tmp_path / "config"))
    assert "\n" not in text
    assert "hush" not in text


class TestSecret:
    def test_what_is_written_out_is_taken(self) -> None:
        ca, certificate, key = issued()
        user = {"client-certificate-data": coded(certificate), "client-key-data": coded(key)}
        assert secret(kubeconfig(cluster={"certificate-authority-data": coded(ca)}, user=user)) == Endpoint(
            name="a",
            server="https://a:6443",
            ca=ca,
            credentials=(ClientCertificate(certificate, Secret(key.decode())),),
            reach=Reach(plain_http=True),
        )

    def test_what_no_connection_can_be_made_with_is_found_at_once(self) -> None:
        with pytest.raises(ConfigInvalid, match=r"^Secret x/y: certificate-authority holds no certificate"):
            secret(kubeconfig(cluster={"certificate-authority-data": PEM64}))
        (ca, certificate, _), (_, _, other) = issued(), issued()
        user = {"client-certificate-data": coded(certificate), "client-key-data": coded(other)}
        for cluster in ({}, {"certificate-authority-data": coded(ca)}):
            with pytest.raises(ConfigInvalid, match=r"^Secret x/y: the client certificate and its key cannot be used"):
                secret(kubeconfig(cluster=cluster, user=user))

    def test_extensions_are_whatever_somebody_thought_of(self) -> None:
        extensions = [{"name": ["a"], "extension": 1}, {"name": "b"}, {}]
        assert secret(kubeconfig(cluster={"extensions": extensions})).server == "https://a:6443"

    @pytest.mark.parametrize(
        "content, message",
        [
            pytest.param(kubeconfig(user={"exec": EXEC}), r'user "a": has an exec plugin', id="exec"),
            pytest.param(
                kubeconfig(user={"exec": EXEC, "token": "t"}), r"has an exec plugin", id="exec-behind-a-token"
            ),
            pytest.param(kubeconfig(user={"auth-provider": {}}), r"has an auth-provider", id="auth-provider"),
            pytest.param(kubeconfig(user={"tokenFile": "/t"}), r"tokenFile names a file", id="token-file"),
            pytest.param(
                kubeconfig(user={"client-certificate": "/c", "client-key": "/k"}),
                r"client-certificate names a file",
                id="client-certificate",
            ),
            pytest.param(
                kubeconfig(user={"client-certificate-data": PEM64, "client-key": "/k"}),
                r"client-key names a file",
                id="client-key",
            ),
            pytest.param(
                kubeconfig(cluster={"certificate-authority": "ca.crt"}),
                r'cluster "a": certificate-authority names a file',
                id="certificate-authority",
            ),
            pytest.param(
                kubeconfig(cluster={"certificate-authority": "ca.crt", "certificate-authority-data": PEM64}),
                r'cluster "a": certificate-authority names a file',
                id="certificate-authority-behind-its-data",
            ),
            pytest.param(b"a: &a {b: 1}\nc: {<<: *a}", r"aliases are not accepted here", id="alias"),
            pytest.param(b"[" * 100_000, r"max depth of 32", id="nesting"),
            pytest.param(b"a: [" + b" " * 2**20, r"the file has 1048580 bytes \(at most 262144 are read\)", id="size"),
            pytest.param(b"a: [", r":2:1: not YAML", id="syntax"),
        ],
    )
    def test_what_reaches_out_is_refused(self, content: Any, message: str) -> None:
        with pytest.raises(ConfigInvalid, match=rf"^Secret x/y.*{message}") as caught:
            secret(content)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "user, cluster",
        [
            ({"exec": EXEC}, {}),
            ({"auth-provider": {"name": "oidc"}}, {}),
            ({"tokenFile": "/t"}, {}),
            ({"client-certificate": "/c", "client-key": "/k"}, {}),
            ({}, {"certificate-authority": "ca.crt"}),
        ],
        ids=["exec", "auth-provider", "token-file", "client-certificate", "certificate-authority"],
    )
    def test_what_is_mistrusted_is_told_from_what_is_broken(self, user: Any, cluster: Any) -> None:
        with pytest.raises(ConfigRefused):
            secret(kubeconfig(user=user, cluster=cluster))

    @pytest.mark.parametrize("content", [b"a: [", b"", kubeconfig(user={"client-certificate-data": "?"})])
    def test_what_is_broken_is_not_mistrusted(self, content: Any) -> None:
        with pytest.raises(ConfigInvalid) as caught:
            secret(content)
        assert not isinstance(caught.value, ConfigRefused)

    @pytest.mark.parametrize("command", ["log-in", "/usr/bin/log-in"])
    def test_a_program_that_is_trusted_is_found_by_its_name_or_its_whole_path(self, command: str) -> None:
        (plugin,) = trusted(kubeconfig(user={"exec": EXEC | {"command": command}})).credentials
        assert isinstance(plugin, ExecPlugin)
        assert plugin.command == command

    @pytest.mark.parametrize(
        "user",
        [{"exec": EXEC | {"command": "bin/log-in"}}, {"tokenFile": "/t"}, {"auth-provider": {"name": "oidc"}}],
        ids=["beside a file that there is not", "token-file", "auth-provider"],
    )
    def test_who_may_run_a_program_may_not_read_a_file(self, user: Any) -> None:
        with pytest.raises(ConfigRefused):
            trusted(kubeconfig(user=user))


@pytest.mark.parametrize(
    "url, env, proxy",
    [
        pytest.param("https://h", {}, "", id="none"),
        pytest.param("https://h", {"HTTPS_PROXY": "http://p:1"}, "http://p:1", id="https"),
        pytest.param("https://h", {"https_proxy": "p:1"}, "http://p:1", id="lower-case-without-scheme"),
        pytest.param("https://h", {"HTTP_PROXY": "http://p:1"}, "", id="other-scheme"),
        pytest.param("https://127.0.0.1", {"HTTPS_PROXY": "p"}, "", id="loopback"),
        pytest.param("https://localhost", {"HTTPS_PROXY": "p"}, "", id="localhost"),
        pytest.param("https://h", {"HTTPS_PROXY": "p", "NO_PROXY": "*"}, "", id="all"),
        pytest.param("https://10.1.2.3", {"HTTPS_PROXY": "p", "NO_PROXY": "x, 10.0.0.0/8"}, "", id="network"),
        pytest.param("https://11.1.2.3", {"HTTPS_PROXY": "p", "NO_PROXY": "10.0.0.0/8"}, "http://p", id="not-in-it"),
        pytest.param("https://a.b.c", {"HTTPS_PROXY": "p", "no_proxy": "b.c"}, "", id="subdomain"),
        pytest.param("https://b.c", {"HTTPS_PROXY": "p", "no_proxy": ".b.c"}, "http://p", id="dot-means-below"),
        pytest.param("https://a.b.c", {"HTTPS_PROXY": "p", "no_proxy": "*.b.c"}, "", id="star-dot"),
        pytest.param("https://ab.c", {"HTTPS_PROXY": "p", "no_proxy": "b.c"}, "http://p", id="not-by-letters"),
        pytest.param("https://h:6443", {"HTTPS_PROXY": "p", "NO_PROXY": "h:6443"}, "", id="port"),
        pytest.param("https://h:6443", {"HTTPS_PROXY": "p", "NO_PROXY": "h:443"}, "http://p", id="other-port"),
    ],
)
def test_environment_proxy(url: str, env: dict[str, str], proxy: str) -> None:
    assert environment_proxy(url, env) == proxy


def test_the_cluster_s_proxy_wins_over_the_environment_s(tmp_path: Path) -> None:
    env = {"HTTPS_PROXY": "http://e:1"}
    assert from_files([write(tmp_path / "1", kubeconfig())], env=env).proxy_url == "http://e:1"
    content = kubeconfig(cluster={"proxy-url": "http://c:1"})
    assert from_files([write(tmp_path / "2", content)], env=env).proxy_url == "http://c:1"


def test_no_secret_shows(tmp_path: Path) -> None:
    users: list[dict[str, Any]] = [
        {"token": "hush", "client-certificate-data": PEM64, "client-key-data": base64.b64encode(b"hush").decode()},
        {"username": "u", "password": "hush"},
        {"exec": EXEC | {"args": ["hush"], "env": [{"name": "A", "value": "hush"}], "provideClusterInfo": True}},
        {
            "auth-provider": {
                "name": "oidc",
                "config": {
                    "idp-issuer-url": "https://i",
                    "client-id": "c",
                    "client-secret": "hush",
                    "id-token": "hush",
                    "refresh-token": "hush",
                },
            }
        },
    ]
    shown = [repr(read(tmp_path, kubeconfig(cluster={"proxy-url": "http://u:hush@p:1"}, user=user))) for user in users]
    assert not any("hush" in text for text in shown)


def test_reading_a_configuration_loads_no_http_client() -> None:
    code = "import sys, haulout.kube.config, haulout.kube.auth; print('aiohttp' in sys.modules)"
    assert run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
