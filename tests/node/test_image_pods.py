"""Haulout's images as pods: any user, a read-only root, no capabilities, and the rights of a service account alone."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator

import pytest
import yaml
from click.testing import CliRunner

from haulout import __version__
from haulout.cli.root import root
from tests.rig.api import CRDS, Api, Json
from tests.rig.haulout_images import DROP_IN, HauloutImages
from tests.rig.maintenances import NMS, ends, maintenance, succeeds
from tests.rig.node import Node
from tests.rig.package_pods import AGENT
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port
from tests.rig.rights import printed
from tests.rig.wait import eventually

pytestmark = [pytest.mark.root, pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "kubelet")]

# A user as OpenShift gives one to a namespace: no image knows it.
ANY_USER = 1000680000
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
RESTRICTED: Json = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
# What a pod needs. Webhooks are left out, because no Service leads to a pod in this cluster.
NEEDED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CustomResourceDefinition",
    "Namespace",
    "Role",
    "RoleBinding",
    "ServiceAccount",
}


@pytest.fixture
def installed(plane: ControlPlane, namespace: str) -> Iterator[str]:
    """A namespace with all that the printed manifests give the operator, but for the Deployment. It is taken away again."""
    api = plane.api()
    words = ["nodemaintenance", "--namespace", namespace, "--original-lease", namespace]
    objects = [each for each in printed("manifests", *words) if each["kind"] in NEEDED]
    objects += [each for each in printed("rbac", "console", "--namespace", namespace) if each["kind"] in NEEDED]
    account = {"metadata": {"name": "haulout-console", "namespace": namespace}}
    objects.append({"apiVersion": "v1", "kind": "ServiceAccount", **account})
    # Other tests of this cluster go on with what was there before. Nothing here would remove a namespace that is deleted.
    fresh = [each for each in objects if each["kind"] != "Namespace" and not is_served(api, each)]
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(objects))
    api.create(
        "configmaps", {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": plane.ca.read_text()}}, namespace
    )
    for each in objects:
        if each["kind"] == "CustomResourceDefinition":
            eventually(lambda each=each: established(api, each), "the definition is served")  # type: ignore[misc]
    yield namespace
    api.delete_all("pods", namespace, grace=1)
    plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump_all(fresh))


def is_served(api: Api, each: Json) -> bool:
    """Whether an object is a definition that is there already."""
    return each["kind"] == "CustomResourceDefinition" and api.find(CRDS, each["metadata"]["name"]) is not None


def established(api: Api, definition: Json) -> bool:
    conditions = api.get(CRDS, definition["metadata"]["name"]).get("status", {}).get("conditions", [])
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def pod(node: Node, name: str, image: str, args: list[str], *, account: str = "haulout", settings: str = "") -> Json:
    """Return a pod as the printed Deployment makes them, in the network of its host, where this API server is reached."""
    host, _, port = node.plane.server.removeprefix("https://").partition(":")
    sources: list[Json] = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    volumes: list[Json] = [{"name": "token", "projected": {"sources": sources}}]
    mounts: list[Json] = [{"name": "token", "mountPath": TOKEN, "readOnly": True}]
    if settings:
        volumes.append({"name": "settings", "configMap": {"name": settings}})
        mounts.append({"name": "settings", "mountPath": "/etc/haulout", "readOnly": True})
    container: Json = {
        "name": "haulout",
        "image": image,
        "imagePullPolicy": "Never",
        "args": args,
        "env": [{"name": "KUBERNETES_SERVICE_HOST", "value": host}, {"name": "KUBERNETES_SERVICE_PORT", "value": port}],
        "resources": {"limits": {"memory": "512Mi"}},
        "securityContext": RESTRICTED,
        "volumeMounts": mounts,
    }
    spec: Json = {
        "nodeName": node.name,
        "hostNetwork": True,
        "serviceAccountName": account,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": ANY_USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [{"operator": "Exists"}],
        "volumes": volumes,
        "containers": [container],
        "restartPolicy": "Never",
    }
    return {"metadata": {"name": name}, "spec": spec}


def ready(port: int, path: str) -> Json:
    """Return a readiness probe that asks as often as possible."""
    return {"httpGet": {"host": "127.0.0.1", "path": path, "port": port}, "periodSeconds": 1, "failureThreshold": 300}


def await_ready(node: Node, name: str, ns: str) -> None:
    """Wait until a pod is ready. If it ends instead, fail with its log."""

    def state() -> bool:
        status = node.plane.api().get("pods", name, ns)["status"]
        assert status["phase"] not in {"Failed", "Succeeded"}, node.plane.kubectl("logs", "-n", ns, name).stdout
        conditions = status.get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    eventually(state, f"{name} is ready")


def user_of(node: Node, words: str) -> list[str]:
    """Return the user and the capabilities of the process in a container whose command line holds these words."""
    (status,) = node.statuses_of(words)
    return [line for line in status.splitlines() if line.startswith(("Uid:", "CapEff:", "NoNewPrivs:", "Seccomp:"))]


UNPRIVILEGED = [
    f"Uid:\t{ANY_USER}\t{ANY_USER}\t{ANY_USER}\t{ANY_USER}",
    "CapEff:\t0000000000000000",
    "NoNewPrivs:\t1",
    "Seccomp:\t2",
]


@pytest.fixture
def elsewhere(plane: ControlPlane, namespace: str) -> Iterator[str]:
    """A node without pods, for maintenances."""
    name = f"{namespace}-node"
    plane.api().create("nodes", {"metadata": {"name": name}})
    yield name
    plane.api().delete("nodes", name)


def maintain(api: Api, name: str, node: str) -> None:
    """Let an operator take a node out of service, and give it back."""
    api.create(NMS, maintenance(name, node))
    succeeds(api, name)
    assert api.get("nodes", node)["spec"]["unschedulable"]
    ends(api, name)
    assert not api.get("nodes", node)["spec"].get("unschedulable")


def test_the_operators_image_maintains_a_node_as_any_user(
    node: Node, images: HauloutImages, installed: str, elsewhere: str
) -> None:
    api, image = node.plane.api(), "haulout.test/haulout:1"
    node.load(images.archive("operator", image))
    http_port, health = free_port(), free_port()
    listen = {"http": f"127.0.0.1:{http_port}", "health": f"127.0.0.1:{health}", "webhooks": "0"}
    settings = {"log": {"format": "json"}, "listen": listen, "surfaces": {"nodemaintenance": {}}}
    api.patch("configmaps", "haulout", {"data": {"haulout.yaml": yaml.safe_dump(settings)}}, installed)
    body = pod(node, "operator", image, ["run", "--config", "/etc/haulout/haulout.yaml"], settings="haulout")
    body["spec"]["containers"][0]["readinessProbe"] = ready(health, "/readyz")
    api.create("pods", body, installed)
    await_ready(node, "operator", installed)
    assert user_of(node, "haulout run") == UNPRIVILEGED
    maintain(api, installed, elsewhere)
    first = json.loads(node.plane.kubectl("logs", "-n", installed, "operator").stdout.splitlines()[0])
    assert (first["msg"], first["version"], first["commit"]) == ("haulout", __version__, images.source().commit)


def test_every_name_of_the_operators_image_starts(node: Node, images: HauloutImages, namespace: str) -> None:
    """Each name is a container of one pod, after the other: the pod succeeds if every one of them has."""
    api, image = node.plane.api(), "haulout.test/haulout:1"
    node.load(images.archive("operator", image))
    listed = CliRunner().invoke(root, ["as", "--names"])
    names = [*listed.output.split(), "usr/local/bin/haulout"]
    assert len(names) > 10
    container = {"image": image, "imagePullPolicy": "Never", "args": ["--help"], "securityContext": RESTRICTED}
    containers = [{"name": f"c{number}", **container, "command": [f"/{name}"]} for number, name in enumerate(names)]
    spec = {
        "nodeName": node.name,
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": ANY_USER},
        "tolerations": [{"operator": "Exists"}],
        "initContainers": containers[:-1],
        "containers": containers[-1:],
        "restartPolicy": "Never",
    }
    api.create("pods", {"metadata": {"name": "names"}, "spec": spec}, namespace)

    def ended() -> bool:
        phase: str = api.get("pods", "names", namespace)["status"].get("phase", "")
        return phase in {"Succeeded", "Failed"}

    eventually(ended, "every name has started")
    status = api.get("pods", "names", namespace)["status"]
    ends = [each["state"]["terminated"] for each in (*status["initContainerStatuses"], *status["containerStatuses"])]
    assert dict(zip(names, [each["exitCode"] for each in ends], strict=True)) == dict.fromkeys(names, 0)


def test_the_image_of_an_original_takes_its_place_as_manager(
    node: Node, images: HauloutImages, installed: str, elsewhere: str
) -> None:
    api, image = node.plane.api(), "haulout.test/original:1"
    node.load(images.archive(DROP_IN, image))
    health = free_port()
    flags = ["--leader-elect", f"--health-probe-bind-address=127.0.0.1:{health}", "--metrics-bind-address=0"]
    body = pod(node, "original", image, [*flags, "--listen-webhooks=0"])
    # As in the Deployment of the original.
    body["spec"]["containers"][0] |= {"command": ["/manager"], "readinessProbe": ready(health, "/readyz")}
    api.create("pods", body, installed)
    await_ready(node, "original", installed)
    assert user_of(node, "/manager --leader-elect") == UNPRIVILEGED
    maintain(api, installed, elsewhere)


def test_the_consoles_image_serves_its_page_and_asks_for_a_token(
    node: Node, images: HauloutImages, installed: str
) -> None:
    api, image, port = node.plane.api(), "haulout.test/console:1", free_port()
    node.load(images.archive("console", image))
    args = ["--listen", f"127.0.0.1:{port}", "--door", "bearer", "--behind-proxy", "--no-open"]
    body = pod(node, "console", image, args, account="haulout-console")
    api.create("pods", body, installed)

    def fetch(path: str) -> tuple[int, str]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    status, page = eventually(lambda: fetch("/"), "the console answers", refused=(OSError,))
    assert (status, "<html" in page) == (200, True)
    assert fetch("/api/v1/whoami")[0] == 401
    assert user_of(node, "haulout console") == UNPRIVILEGED


def test_the_agents_image_runs_its_program_without_a_shell(node: Node, images: HauloutImages, namespace: str) -> None:
    api = node.plane.api()
    node.load(images.archive("agent", AGENT))
    container = {
        "name": "agent",
        # Statuses name an image by one of its names: a second one would confuse other tests.
        "image": AGENT,
        "imagePullPolicy": "Never",
        "args": ["--version"],
        "securityContext": {"readOnlyRootFilesystem": True},
    }
    spec = {
        "nodeName": node.name,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "restartPolicy": "Never",
    }
    api.create("pods", {"metadata": {"name": "agent"}, "spec": spec}, namespace)
    eventually(lambda: api.get("pods", "agent", namespace)["status"]["phase"] == "Succeeded", "the agent has run")
    assert node.plane.kubectl("logs", "-n", namespace, "agent").stdout == f"{__version__}\n"
