"""A real control plane on loopback: etcd, kube-apiserver, and on request controllers and a scheduler."""

from __future__ import annotations

import itertools
import json
import ssl
import subprocess
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.rig.api import Api, ApiError, Json
from tests.rig.audit import AuditLog
from tests.rig.etcd import Etcd
from tests.rig.process import Process, free_port
from tests.rig.wait import eventually
from tools.build import find_tool

# Audit lines name the user. Tests and operators have users of their own, so that their requests can be counted.
MASTERS = ("test", "operator", "operator-b", "kwok", "controllers", "scheduler", "kubelet")
# Users who may do nothing until `limited_user` gives them rules. A token file is read only once, at the start.
SPARE_USERS = 64

# Patches and updates of nodes are logged with their body, or an uncordon could not be told from a label; so are pods
# that the operator creates, whose annotations say what they are for. Writes are also logged when they are received, so
# that it is known which are not answered yet.
ANSWERED: Json = {"omitStages": ["RequestReceived"]}
AUDIT_POLICY: Json = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitManagedFields": True,
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
        {"level": "None", "users": ["system:apiserver"]},
        {
            "level": "Request",
            "users": ["operator", "operator-b", "test"],
            "verbs": ["patch", "update"],
            "resources": [{"group": "", "resources": ["nodes"]}],
        },
        {
            "level": "Request",
            "users": ["operator"],
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods"]}],
        },
        {
            "level": "Request",
            "users": ["operator"],
            "verbs": ["create", "patch"],
            "resources": [{"group": "batch", "resources": ["jobs"]}],
        },
        {"level": "Metadata", "users": ["kwok", "controllers", "scheduler", "kubelet"], **ANSWERED},
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
        {"level": "Metadata", **ANSWERED},
    ],
}

# Node lifecycle and taint eviction are left out, because nodes without a heartbeat would become unreachable during a
# test.
CONTROLLERS = (
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "statefulset-controller",
)


def tool(name: str) -> Path:
    found = find_tool(name)
    if found is None:
        raise FileNotFoundError(f"no {name}: run `make tools`")
    return found


def run_kubectl(
    kubeconfig: Path, *words: str, stdin: str | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    # kubectl caches what it knows of a server by its port, which another server may have had in an earlier run.
    cache = kubeconfig.with_name("kubectl-cache")
    argv = [str(tool("kubectl")), f"--kubeconfig={kubeconfig}", f"--cache-dir={cache}", *words]
    done = subprocess.run(argv, input=stdin, text=True, capture_output=True, check=False, timeout=120)
    if check and done.returncode != 0:
        raise RuntimeError(f"kubectl {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done


class Cluster(Protocol):
    """The interface of a cluster that an operator and the tests of it need."""

    def api(self, user: str = ...) -> Api: ...

    def kubeconfig(self, user: str = ..., *, server: str | None = None) -> Path: ...


class ControlPlane:
    """A control plane that writes everything under `directory`. `start` returns when the API server is ready."""

    def __init__(self, directory: Path, *, apiserver_flags: Sequence[str] = ()) -> None:
        self.directory = directory
        self.kubeconfigs = directory / "kubeconfigs"
        self.kubeconfigs.mkdir(parents=True)
        port = free_port()
        self.server = f"https://127.0.0.1:{port}"
        self.authority = trustme.CA()
        self.ca = directory / "ca.crt"
        self.authority.cert_pem.write_to_path(str(self.ca))
        self._write_inputs()
        self.etcd = Etcd(tool("etcd"), directory)
        self.apiserver = Process(
            "kube-apiserver",
            [
                tool("kube-apiserver"),
                f"--etcd-servers={self.etcd.url}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--tls-cert-file={directory / 'server.crt'}",
                f"--tls-private-key-file={directory / 'server.key'}",
                f"--client-ca-file={self.ca}",
                f"--kubelet-client-certificate={directory / 'to-kubelet.crt'}",
                f"--kubelet-client-key={directory / 'to-kubelet.key'}",
                "--kubelet-preferred-address-types=InternalIP",
                f"--token-auth-file={directory / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={directory / 'service-accounts.key'}",
                f"--service-account-signing-key-file={directory / 'service-accounts.key'}",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--disable-admission-plugins=ServiceAccount",
                "--endpoint-reconciler-type=none",
                "--allow-privileged=true",
                "--max-requests-inflight=4000",
                "--max-mutating-requests-inflight=2000",
                f"--audit-policy-file={directory / 'audit-policy.json'}",
                f"--audit-log-path={directory / 'audit.jsonl'}",
                "--audit-log-mode=blocking",
                "--audit-log-maxsize=65536",
                "--v=0",
                *apiserver_flags,
            ],
            directory,
        )
        self.audit = AuditLog(directory / "audit.jsonl", self._leave_mark)
        self._helpers: list[Process] = []
        self._apis: dict[str, Api] = {}
        self._spare = iter(range(SPARE_USERS))

    def start(self) -> Self:
        self.etcd.start()
        self.start_apiserver()
        return self

    def start_apiserver(self) -> None:
        """Start the API server alone, for tests that load the storage first or restart the server."""
        self.apiserver.start()
        api = self.api()

        def ready() -> bool:
            self.apiserver.check()
            return bool(api.request("GET", "/readyz") == "ok" and api.find("namespaces", "default"))

        eventually(ready, "kube-apiserver ready", refused=(OSError, ApiError))

    def start_controllers(self, controllers: Iterable[str] = CONTROLLERS, *, flags: Sequence[str] = ()) -> Process:
        return self._start_helper(
            "kube-controller-manager",
            "controllers",
            [
                f"--controllers={','.join(controllers)}",
                "--use-service-account-credentials=false",
                f"--service-account-private-key-file={self.directory / 'service-accounts.key'}",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                *flags,
            ],
        )

    def start_scheduler(self, *, flags: Sequence[str] = ()) -> Process:
        limits = ["--kube-api-qps=500", "--kube-api-burst=1000"]
        return self._start_helper("kube-scheduler", "scheduler", [*limits, *flags])

    def stop(self) -> None:
        for api in self._apis.values():
            api.close()
        for process in (*reversed(self._helpers), self.apiserver):
            process.stop()
        self.etcd.stop()

    def api(self, user: str = "test") -> Api:
        """Return the client of a user, which all callers share."""
        if user not in self._apis:
            self._apis[user] = Api(self.server, self.token(user), ca=self.ca)
        return self._apis[user]

    def token(self, user: str) -> str:
        return f"{user}-token"

    def kubeconfig(self, user: str = "operator", *, server: str | None = None) -> Path:
        """Write a kubeconfig with this user's token.

        `server`: the address of a proxy, if requests shall go through it.
        """
        cluster: Json = {"server": server or self.server}
        if cluster["server"].startswith("https:"):
            cluster["certificate-authority"] = str(self.ca)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": user,
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.token(user)}}],
            "contexts": [{"name": user, "context": {"cluster": "test", "user": user, "namespace": "default"}}],
        }
        way = "direct" if server is None else server.rpartition(":")[2]
        path = self.kubeconfigs / f"{user}-{way}.yaml"
        if not path.exists():
            path.write_text(yaml.safe_dump(config))
        return path

    def limited_user(self, rules: list[Json], *, ns: str | None = None) -> str:
        """Create a user with these RBAC rules and no others, in one namespace or everywhere. Return its name."""
        user = f"limited-{next(self._spare)}"
        scope = "ClusterRole" if ns is None else "Role"
        group = "rbac.authorization.k8s.io"
        api, prefix = self.api(), f"{group}/v1/{scope.lower()}"
        api.create(f"{prefix}s", {"metadata": {"name": user}, "rules": rules}, ns)
        binding = {
            "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": scope, "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
        api.create(f"{prefix}bindings", binding, ns)
        return user

    def kubectl(
        self, *words: str, user: str = "test", stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        return run_kubectl(self.kubeconfig(user), *words, stdin=stdin, check=check)

    def load(self, objects: Iterable[Json]) -> int:
        """Put objects straight into the storage, before the API server starts or while it runs."""
        return self.etcd.load(objects, watched=self.apiserver.running)

    def wipe(self, prefix: str) -> int:
        """Remove every object from the storage whose name or namespace begins with `prefix`, of any kind."""
        return self.etcd.wipe(prefix)

    def restart_apiserver(self) -> None:
        self.apiserver.stop()
        self.start_apiserver()

    def restore(self, backup: Path) -> None:
        """Go back to a backup of the storage, and restart everything of the control plane, as etcd's manual asks for."""
        for process in (*self._helpers, self.apiserver):
            process.kill()
        self.etcd.restore(backup)
        self.start_apiserver()
        for helper in self._helpers:
            helper.start()

    def forget_history(self) -> None:
        """Drop all history of cache and storage, so that pages of earlier lists and earlier watches get 410."""
        self.apiserver.stop()
        self.etcd.compact()
        self.start_apiserver()

    def _start_helper(self, program: str, user: str, flags: Sequence[str]) -> Process:
        port = free_port()
        process = Process(
            program,
            [
                tool(program),
                f"--kubeconfig={self.kubeconfig(user)}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--tls-cert-file={self.directory / 'server.crt'}",
                f"--tls-private-key-file={self.directory / 'server.key'}",
                *flags,
            ],
            self.directory,
        ).start()
        self._helpers.append(process)
        tls = ssl.create_default_context(cafile=self.ca)

        def healthy() -> bool:
            process.check()
            with urllib.request.urlopen(f"https://127.0.0.1:{port}/healthz", timeout=60, context=tls) as answer:
                return bool(answer.status == 200)

        eventually(healthy, f"{program} healthy", refused=(OSError,))
        return process

    def _leave_mark(self, mark: str) -> None:
        self.api().find("namespaces", mark)

    def _write_inputs(self) -> None:
        names = ("127.0.0.1", "localhost", "kubernetes.default.svc")
        self._write_certificate("server", self.authority.issue_cert(*names))
        reader = self.authority.issue_cert("apiserver", common_name="apiserver", organization_name="system:masters")
        self._write_certificate("to-kubelet", reader)
        (self.directory / "service-accounts.key").write_bytes(
            rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        masters = [f'{self.token(user)},{user},{user},"system:masters"' for user in MASTERS]
        others = [f"{self.token(user)},{user},{user}" for user in (f"limited-{i}" for i in range(SPARE_USERS))]
        (self.directory / "tokens.csv").write_text("\n".join(itertools.chain(masters, others, [""])))
        (self.directory / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))

    def _write_certificate(self, name: str, certificate: trustme.LeafCert) -> None:
        (self.directory / f"{name}.crt").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        certificate.private_key_pem.write_to_path(str(self.directory / f"{name}.key"))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
