"""Nodes and pods in full size, as an API server returns them, for fleets that are written into the storage."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from tests.rig.api import Json

KWOK_NODE = {"kwok.x-k8s.io/node": "fake"}

NODE_CONDITIONS = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
POD_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
IMAGES = 32


@dataclasses.dataclass(frozen=True)
class Owner:
    kind: str
    name: str
    uid: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def reference(self) -> Json:
        return {
            "apiVersion": "batch/v1" if self.kind == "Job" else "apps/v1",
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_object(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Json] = (),
    ready: bool = True,
    unschedulable: bool = False,
) -> Json:
    """Return a node of about 9 KB. KWOK keeps it alive unless `annotations` removes the mark of a simulated node."""
    at = now()
    spec: Json = {"podCIDR": "10.128.0.0/24", "podCIDRs": ["10.128.0.0/24"], "providerID": f"test://zone/{name}"}
    if taints:
        spec["taints"] = list(taints)
    if unschedulable:
        spec["unschedulable"] = True
    room = {
        "cpu": "64",
        "memory": "263856340Ki",
        "pods": "500",
        "ephemeral-storage": "1843269236Ki",
        "hugepages-2Mi": "0",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": at,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m64",
                "topology.kubernetes.io/region": "test",
                "topology.kubernetes.io/zone": "test-a",
                **(labels or {}),
            },
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": f'{{"csi.test":"{name}"}}',
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                **(KWOK_NODE if annotations is None else annotations),
            },
            "managedFields": node_managed_fields(at),
        },
        "spec": spec,
        "status": {
            "capacity": room,
            "allocatable": {**room, "memory": "259661548Ki"},
            "phase": "Running",
            "conditions": node_conditions(at, ready=ready),
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.0-1-amd64",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.3",
                "machineID": uuid.uuid5(uuid.NAMESPACE_DNS, name).hex,
                "operatingSystem": "linux",
                "osImage": "Debian GNU/Linux 13 (trixie)",
                "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
            },
            "images": [
                {
                    "names": [
                        f"registry.test/team/service-{i}@sha256:{i:064x}",
                        f"registry.test/team/service-{i}:v1.{i}",
                    ],
                    "sizeBytes": 31_000_000 + i,
                }
                for i in range(IMAGES)
            ],
        },
    }


def node_conditions(at: str, *, ready: bool) -> list[Json]:
    since = {"lastHeartbeatTime": at, "lastTransitionTime": at}
    calm = [
        {"type": kind, "status": "False", "reason": reason, "message": f"{text}", **since}
        for kind, reason, text in NODE_CONDITIONS
    ]
    last = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "KubeletReady" if ready else "KubeletNotReady",
        "message": "kubelet is posting ready status" if ready else "container runtime is down",
        **since,
    }
    return [*calm, last]


def pod_object(
    name: str,
    ns: str,
    node: str,
    *,
    owner: Owner | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    grace: int = 30,
    running: bool = True,
) -> Json:
    """Return a pod of about 8 KB. With `running=False` it is Pending, and KWOK starts it."""
    at = now()
    app = owner.name if owner else name
    meta: Json = {
        "name": name,
        "namespace": ns,
        "uid": str(uuid.uuid4()),
        "creationTimestamp": at,
        "labels": {
            "app.kubernetes.io/component": "backend",
            "app.kubernetes.io/instance": app,
            "app.kubernetes.io/managed-by": "Helm",
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/part-of": "shop",
            "app.kubernetes.io/version": "1.17.4",
            "helm.sh/chart": "backend-4.2.0",
            "pod-template-hash": "7d9c8b6f5d",
            **(labels or {}),
        },
        "annotations": {
            "checksum/config": "5f2b0a8e3a6f4c0d9e8b7a6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e",
            "checksum/secret": "1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b1c2d3e4f5a6b7c8d9e0f1a2b",
            "kubectl.kubernetes.io/restartedAt": at,
            "linkerd.io/inject": "enabled",
            "prometheus.io/path": "/metrics",
            "prometheus.io/port": "8080",
            "prometheus.io/scrape": "true",
            **(annotations or {}),
        },
        "managedFields": pod_managed_fields(at),
    }
    if owner is not None:
        meta["generateName"] = f"{owner.name}-"
        meta["ownerReferences"] = [owner.reference]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": pod_spec(node, app, grace),
        "status": running_status(app, at) if running else {"phase": "Pending", "qosClass": "Burstable"},
    }


def pod_spec(node: str, app: str, grace: int) -> Json:
    probe = {
        "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
        "timeoutSeconds": 3,
        "periodSeconds": 10,
        "successThreshold": 1,
    }
    plain = {f"SETTING_{i}": f"value-of-setting-{i}" for i in range(10)}
    secret = {f"SECRET_{i}": {"secretKeyRef": {"name": f"{app}-credentials", "key": f"secret-{i}"}} for i in range(6)}
    stopping = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}
    return {
        "nodeName": node,
        "serviceAccountName": app,
        "serviceAccount": app,
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": grace,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001},
        "tolerations": [{"key": f"node.kubernetes.io/{key}", **stopping} for key in ("not-ready", "unreachable")],
        "containers": [
            {
                "name": "main",
                "image": f"registry.test/shop/{app}:1.17.4",
                "imagePullPolicy": "IfNotPresent",
                "args": ["--listen=:8080", "--log-format=json", "--shutdown-delay=5s"],
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "env": [
                    *({"name": key, "value": value} for key, value in plain.items()),
                    *({"name": key, "valueFrom": source} for key, source in secret.items()),
                ],
                "livenessProbe": {**probe, "failureThreshold": 3},
                "readinessProbe": {**probe, "failureThreshold": 2},
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/app", "readOnly": True},
                    {"name": "scratch", "mountPath": "/tmp"},
                    {
                        "name": "kube-api-access",
                        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                        "readOnly": True,
                    },
                ],
            }
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
            {"name": "scratch", "emptyDir": {}},
            {
                "name": "kube-api-access",
                "projected": {
                    "defaultMode": 420,
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    ],
                },
            },
        ],
    }


def running_status(app: str, at: str) -> Json:
    return {
        "phase": "Running",
        "qosClass": "Burstable",
        "startTime": at,
        "hostIP": "10.0.0.1",
        "hostIPs": [{"ip": "10.0.0.1"}],
        "podIP": "10.128.0.7",
        "podIPs": [{"ip": "10.128.0.7"}],
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": at} for kind in POD_CONDITIONS
        ],
        "containerStatuses": [
            {
                "name": "main",
                "image": f"registry.test/shop/{app}:1.17.4",
                "imageID": f"registry.test/shop/{app}@sha256:{uuid.uuid4().hex}{uuid.uuid4().hex}",
                "containerID": f"containerd://{uuid.uuid4().hex}{uuid.uuid4().hex}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": at}},
                "lastState": {},
            }
        ],
    }


def fleet(
    prefix: str, nodes: int, *, ns: str = "default", pods_per_node: int = 0, replicas: int = 20, grace: int = 30
) -> Iterator[Json]:
    """Yield `nodes` nodes and their running pods, `replicas` of them in a ReplicaSet, spread over the nodes."""
    owners = [Owner("ReplicaSet", f"{prefix}-rs-{i}") for i in range(-(-nodes * pods_per_node // replicas))]
    for i in range(nodes):
        yield node_object(f"{prefix}-node-{i}")
    for i in range(nodes * pods_per_node):
        owner = owners[i % len(owners)]
        yield pod_object(f"{owner.name}-{i}", ns, f"{prefix}-node-{i % nodes}", owner=owner, grace=grace)


def fields(*paths: str) -> Json:
    """Return the nested form of managedFields from paths, in which `~1` stands for a slash within a name."""
    tree: Json = {}
    for path in paths:
        at = tree
        for part in path.split("/"):
            name = part.replace("~1", "/")
            at = at.setdefault(name if name == "." or name[:2] == "k:" else f"f:{name}", {})
    return tree


def each(path: str, *names: str) -> list[str]:
    return [f"{path}/{name}" for name in names]


NODE_META_FIELDS = fields(
    *each("metadata/annotations", ".", "volumes.kubernetes.io~1controller-managed-attach-detach"),
    *each("metadata/labels", ".", "kubernetes.io~1arch", "kubernetes.io~1hostname", "kubernetes.io~1os"),
)
NODE_STATUS_FIELDS = fields(
    *(
        path
        for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
        for path in each(
            f'status/conditions/k:{{"type":"{kind}"}}',
            *("lastHeartbeatTime", "lastTransitionTime", "message", "reason", "status"),
        )
    ),
    *each("status/allocatable", "cpu", "memory", "pods", "ephemeral-storage"),
    *each("status/capacity", "cpu", "memory", "pods", "ephemeral-storage"),
    "status/images",
)
MAIN = 'spec/containers/k:{"name":"main"}'
PROBE_FIELDS = (
    *(".", "failureThreshold", "httpGet/path", "httpGet/port", "httpGet/scheme"),
    *("periodSeconds", "successThreshold", "timeoutSeconds"),
)
POD_SPEC_FIELDS = fields(
    *each("metadata", "generateName", "annotations/.", "labels/.", "labels/app.kubernetes.io~1name"),
    *each("metadata/ownerReferences", "."),
    *each("spec", "dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName", "securityContext/fsGroup"),
    *each("spec", "serviceAccount", "serviceAccountName", "terminationGracePeriodSeconds", "volumes/."),
    *each(MAIN, ".", "args", "image", "imagePullPolicy", "name", "ports", "terminationMessagePath", "volumeMounts"),
    *each(f"{MAIN}/livenessProbe", *PROBE_FIELDS),
    *each(f"{MAIN}/readinessProbe", *PROBE_FIELDS),
    *each(f"{MAIN}/resources", ".", "limits/memory", "requests/cpu", "requests/memory"),
    *(path for i in range(10) for path in each(f'{MAIN}/env/k:{{"name":"SETTING_{i}"}}', ".", "name", "value")),
)
POD_STATUS_FIELDS = fields(
    *(
        path
        for kind in POD_CONDITIONS
        for path in each(
            f'status/conditions/k:{{"type":"{kind}"}}', ".", "lastProbeTime", "lastTransitionTime", "status", "type"
        )
    ),
    *each("status", "containerStatuses", "hostIP", "hostIPs", "phase", "podIP", "startTime"),
    *each('status/podIPs/k:{"ip":"10.128.0.7"}', ".", "ip"),
)


def managed(manager: str, at: str, tree: Json, sub: str | None = None) -> Json:
    entry: Json = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": at}
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": tree}
    return entry | ({"subresource": sub} if sub else {})


def node_managed_fields(at: str) -> list[Json]:
    return [managed("kubelet", at, NODE_META_FIELDS), managed("kubelet", at, NODE_STATUS_FIELDS, "status")]


def pod_managed_fields(at: str) -> list[Json]:
    return [
        managed("kube-controller-manager", at, POD_SPEC_FIELDS),
        managed("kubelet", at, POD_STATUS_FIELDS, "status"),
    ]
