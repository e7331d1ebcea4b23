"""Every kind we use: what the server adds to the smallest object, and its life."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.contract.build import (
    config_map,
    container,
    crd,
    daemon_set,
    deployment,
    job,
    lease,
    named,
    pdb,
    pod,
    replica_set,
    service,
    stateful_set,
    template,
    widget,
)
from tests.contract.registry import case, each
from tests.contract.world import (
    CRDS,
    DAEMONSETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    MUTATING,
    PDBS,
    REPLICASETS,
    STATEFULSETS,
    VALIDATING,
    WIDGETS,
    World,
)

Json = dict[str, Any]


class Kind(NamedTuple):
    resource: str
    body: Json
    # Fields that a controller writes as soon as it likes are not looked at.
    show: str = "*"


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def required(*expressions: Json) -> Json:
    """Return a required node affinity."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}}}


SETTLED = "kind apiVersion metadata.namespace metadata.labels metadata.generation spec"
CORE_EVENT: Json = {
    "involvedObject": {"kind": "Pod", "namespace": "PLACE", "name": "a"},
    "reason": "Why",
    "message": "because",
    "type": "Normal",
}
NEW_EVENT: Json = {
    "regarding": {"kind": "Pod", "namespace": "PLACE", "name": "a"},
    "reason": "Why",
    "action": "Act",
    "note": "because",
    "type": "Normal",
    "eventTime": "2001-02-03T04:05:06.000000Z",
    "reportingController": "example.test/me",
    "reportingInstance": "me-0",
}

NAMESPACED = {
    "pods": Kind("pods", pod()),
    "configmaps": Kind("configmaps", config_map(key="value")),
    "secrets": Kind("secrets", named("a", stringData={"key": "value"})),
    "serviceaccounts": Kind("serviceaccounts", named("a")),
    "services": Kind("services", service(80), SETTLED),
    "services-headless": Kind("services", service(80, clusterIP="None")),
    "services-headless-bare": Kind("services", named("a", spec={"clusterIP": "None"})),
    "services-several": Kind("services", service(80, 443, 53, selector=None, sessionAffinity="ClientIP"), SETTLED),
    "services-nodeport": Kind("services", service(80, type="NodePort"), SETTLED),
    "services-balanced": Kind("services", service(80, 443, type="LoadBalancer"), SETTLED),
    "services-external": Kind("services", named("a", spec={"type": "ExternalName", "externalName": "example.test"})),
    "core-events": Kind("events", named("a", **CORE_EVENT)),
    "new-events": Kind(EVENTS, named("a", **NEW_EVENT)),
    "leases": Kind(LEASES, lease(acquireTime="2001-02-03T04:05:06.000000Z")),
    "pdbs": Kind(PDBS, pdb(minAvailable=1), SETTLED),
    "deployments": Kind(DEPLOYMENTS, deployment(), SETTLED),
    "replicasets": Kind(REPLICASETS, replica_set(), SETTLED),
    "statefulsets": Kind(STATEFULSETS, stateful_set(), SETTLED),
    "daemonsets": Kind(DAEMONSETS, daemon_set(), SETTLED),
    "jobs": Kind(JOBS, job(), "kind apiVersion metadata.namespace spec.template spec.suspend spec.completions"),
    "widgets": Kind(WIDGETS, widget()),
}
CLUSTER_WIDE = {
    "nodes": Kind("nodes", {"spec": {"podCIDR": "10.1.0.0/24"}}),
    "namespaces": Kind("namespaces", {}, "kind apiVersion metadata.labels metadata.name spec status.phase"),
    "racks": Kind("contract.test/v1/racks", {"apiVersion": "contract.test/v1", "kind": "Rack"}),
    "validating": Kind(VALIDATING, {}),
    "mutating": Kind(MUTATING, {}),
}


def placed(w: World, kind: Kind) -> tuple[str, Json]:
    """Return the object in the case's namespace, or named after it."""
    meta = {"name": w.ns, **kind.body.get("metadata", {})}
    body = {**kind.body, "metadata": meta}
    for key in ("involvedObject", "regarding"):
        if key in body:
            body[key] = {**body[key], "namespace": w.ns}
    return meta["name"], body


@each({**NAMESPACED, **{key: CLUSTER_WIDE[key] for key in CLUSTER_WIDE if key != "namespaces"}})
def created(w: World, kind: Kind) -> None:
    """Create an object in a dry run and then really, and write down what the server adds."""
    _, body = placed(w, kind)
    w.create(kind.resource, body, dryRun="All", show="*")
    w.create(kind.resource, body, show="*")


@each(NAMESPACED | CLUSTER_WIDE)
def life(w: World, kind: Kind) -> None:
    name, body = placed(w, kind)
    if kind.resource == "namespaces":
        name = body["metadata"]["name"] = f"{w.ns}-own"
    w.create(kind.resource, body)
    w.create(kind.resource, body)
    w.get(kind.resource, name, show=kind.show)
    w.patch(kind.resource, name, {"metadata": {"labels": {"one": "1"}}}, show="metadata.labels metadata.generation")
    w.patch(kind.resource, name, {"metadata": {"labels": {"two": "2"}}}, dryRun="All", show="metadata.labels")
    w.list(kind.resource, labelSelector="one=1", show="kind apiVersion items[].metadata.name items[].kind")
    w.list(kind.resource, labelSelector="two", show="items")
    w.delete(kind.resource, name, dryRun="All")
    w.get(kind.resource, name, show="metadata.deletionTimestamp")
    if kind.resource != "namespaces":
        w.delete(kind.resource, name, {"propagationPolicy": "Background"}, show="kind status details")
        w.wait_gone(kind.resource, name)


@each(NAMESPACED | CLUSTER_WIDE)
def missing(w: World, kind: Kind) -> None:
    name, body = placed(w, kind)
    name = body["metadata"]["name"] = f"{name}-none"
    w.get(kind.resource, name)
    w.delete(kind.resource, name)
    w.patch(kind.resource, name, {"metadata": {"labels": {"one": "1"}}})
    w.replace(kind.resource, {**body, "metadata": {"name": name, "resourceVersion": "1"}})
    w.list(kind.resource, labelSelector="no=such", show="*")


@each(
    {
        "pod-without-containers": Kind("pods", named("a", spec={"containers": []})),
        "pod-without-spec": Kind("pods", named("a")),
        "pod-without-image": Kind("pods", named("a", spec={"containers": [{"name": "main"}]})),
        "pod-bad-container": Kind("pods", named("a", spec={"containers": [container("Main")]})),
        "pod-twin-containers": Kind("pods", named("a", spec={"containers": [container(), container()]})),
        "pod-restart": Kind("pods", pod(restartPolicy="Sometimes")),
        "pod-negative-grace": Kind("pods", pod(terminationGracePeriodSeconds=-1)),
        "pod-toleration": Kind("pods", pod(tolerations=[{"operator": "Exists", "value": "x", "key": "k"}])),
        "pod-volume": Kind("pods", pod(containers=[container(volumeMounts=[{"name": "none", "mountPath": "/x"}])])),
        "pod-mounts": Kind(
            "pods",
            pod(
                volumes=[{"name": "v", "emptyDir": {}}],
                containers=[
                    container(volumeMounts=[{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/x"}])
                ],
            ),
        ),
        "pod-affinity-operator": Kind("pods", pod(affinity=required({"key": "k", "operator": "Huh"}))),
        "pod-affinity-values": Kind("pods", pod(affinity=required({"key": "k", "operator": "In"}))),
        "pod-affinity-number": Kind(
            "pods", pod(affinity=required({"key": "k", "operator": "Gt", "values": ["a", "b"]}))
        ),
        "pod-affinity-exists": Kind(
            "pods", pod(affinity=required({"key": "k", "operator": "Exists", "values": ["a"]}))
        ),
        "pod-affinity-no-terms": Kind("pods", pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}})),
        "pod-affinity-weight": Kind(
            "pods", pod(affinity={"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {}}]}})
        ),
        "pod-toleration-effect": Kind("pods", pod(tolerations=[{"key": "k", "operator": "Exists", "effect": "Some"}])),
        "pod-toleration-seconds": Kind(
            "pods", pod(tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 5}])
        ),
        "pod-toleration-operator": Kind("pods", pod(tolerations=[{"key": "k", "operator": "Like"}])),
        "pod-toleration-value": Kind("pods", pod(tolerations=[{"key": "k", "value": "not valid!"}])),
        "pod-deadline": Kind("pods", pod(activeDeadlineSeconds=0)),
        "pod-dns": Kind("pods", pod(dnsPolicy="Sometimes")),
        "pod-node-name": Kind("pods", pod(node="Not_Valid")),
        "pod-selector": Kind("pods", pod(nodeSelector={"not valid!": "x"})),
        "pod-amount": Kind("pods", pod(containers=[container(resources={"requests": {"cpu": "-1"}})])),
        "pod-pull-policy": Kind("pods", pod(containers=[container(imagePullPolicy="Sometimes")])),
        "pod-port": Kind("pods", pod(containers=[container(ports=[{"containerPort": 0}])])),
        "pod-port-protocol": Kind("pods", pod(containers=[container(ports=[{"containerPort": 80, "protocol": "X"}])])),
        "pod-env": Kind("pods", pod(containers=[container(env=[{"name": ""}])])),
        "pod-volume-twins": Kind("pods", pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}])),
        "pod-mount-nowhere": Kind("pods", pod(containers=[container(volumeMounts=[{"name": "none"}])])),
        "pod-resources": Kind(
            "pods", pod(containers=[container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})])
        ),
        "node-taint-effect": Kind("nodes", {"spec": {"taints": [{"key": "k", "effect": "Sometimes"}]}}),
        "node-twin-taints": Kind(
            "nodes", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoExecute"}]}}
        ),
        "configmap-key": Kind("configmaps", named("a", data={"not/valid": "x"})),
        "configmap-twin-key": Kind("configmaps", named("a", data={"k": "x"}, binaryData={"k": "eA=="})),
        "service-name": Kind("services", {**service(80), "metadata": {"name": "Not_valid"}}),
        "service-name-digit": Kind("services", {**service(80), "metadata": {"name": "1a"}}),
        "service-empty": Kind("services", named("a")),
        "service-no-ports": Kind("services", service()),
        "service-port": Kind("services", service(0)),
        "service-port-high": Kind("services", service(65536)),
        "service-port-names": Kind("services", named("a", spec={"ports": [{"port": 1}, {"port": 2}]})),
        "service-port-twins": Kind(
            "services", named("a", spec={"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]})
        ),
        "service-port-name": Kind("services", named("a", spec={"ports": [{"port": 1, "name": "Not_valid"}]})),
        "service-protocol": Kind("services", named("a", spec={"ports": [{"port": 1, "protocol": "X"}]})),
        "service-type": Kind("services", service(80, type="Other")),
        "service-affinity": Kind("services", service(80, sessionAffinity="Some")),
        "service-selector": Kind("services", service(80, selector={"not valid!": "x"})),
        "service-external": Kind("services", named("a", spec={"type": "ExternalName"})),
        "secret-base64": Kind("secrets", named("a", data={"k": "not base64!"})),
        "secret-base64-end": Kind("secrets", named("a", data={"k": "YWJjZA"})),
        "secret-base64-padding": Kind("secrets", named("a", data={"k": "YWJjZA=x"})),
        "secret-tls": Kind("secrets", named("a", type="kubernetes.io/tls", data={})),
        "secret-tls-half": Kind("secrets", named("a", type="kubernetes.io/tls", data={"tls.crt": "eA=="})),
        "secret-basic-auth": Kind("secrets", named("a", type="kubernetes.io/basic-auth")),
        "secret-basic-auth-half": Kind(
            "secrets", named("a", type="kubernetes.io/basic-auth", data={"username": "eA=="})
        ),
        "secret-ssh-auth": Kind("secrets", named("a", type="kubernetes.io/ssh-auth", data={"k": "eA=="})),
        "secret-docker": Kind("secrets", named("a", type="kubernetes.io/dockerconfigjson")),
        "lease-duration": Kind(LEASES, lease(leaseDurationSeconds=0)),
        "pdb-both": Kind(PDBS, pdb(minAvailable=1, maxUnavailable=1)),
        "pdb-negative": Kind(PDBS, pdb(minAvailable=-1)),
        "pdb-percent": Kind(PDBS, pdb(maxUnavailable="120%")),
        "pdb-words": Kind(PDBS, pdb(maxUnavailable="some")),
        "pdb-policy": Kind(PDBS, pdb(minAvailable=1, unhealthyPodEvictionPolicy="Maybe")),
        "pdb-selector": Kind(
            PDBS, named("a", spec={"selector": {"matchExpressions": [{"key": "k", "operator": "In"}]}})
        ),
        "deployment-selector": Kind(DEPLOYMENTS, deployment(selector={"matchLabels": {"app": "other"}})),
        "deployment-no-selector": Kind(DEPLOYMENTS, named("a", spec={"template": template()})),
        "deployment-negative": Kind(DEPLOYMENTS, deployment(replicas=-1)),
        "deployment-strategy": Kind(DEPLOYMENTS, deployment(strategy={"type": "Careless"})),
        "deployment-zeros": Kind(
            DEPLOYMENTS, deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})
        ),
        "replicaset-restart": Kind(REPLICASETS, replica_set(template=template(restartPolicy="Never"))),
        "daemonset-zero": Kind(
            DAEMONSETS, daemon_set(updateStrategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}})
        ),
        "daemonset-both": Kind(
            DAEMONSETS, daemon_set(updateStrategy={"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}})
        ),
        "daemonset-ready": Kind(DAEMONSETS, daemon_set(minReadySeconds=-1)),
        "deployment-ready": Kind(DEPLOYMENTS, deployment(minReadySeconds=-1)),
        "deployment-deadline": Kind(DEPLOYMENTS, deployment(progressDeadlineSeconds=10, minReadySeconds=10)),
        "deployment-history": Kind(DEPLOYMENTS, deployment(revisionHistoryLimit=-1)),
        "deployment-zero": Kind(
            DEPLOYMENTS, deployment(strategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}})
        ),
        "deployment-recreate": Kind(DEPLOYMENTS, deployment(strategy={"type": "Recreate", "rollingUpdate": {}})),
        "replicaset-ready": Kind(REPLICASETS, replica_set(minReadySeconds=-1)),
        "statefulset-strategy": Kind(STATEFULSETS, stateful_set(updateStrategy={"type": "Careless"})),
        "statefulset-partition": Kind(STATEFULSETS, stateful_set(updateStrategy={"rollingUpdate": {"partition": -1}})),
        "statefulset-on-delete": Kind(
            STATEFULSETS, stateful_set(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}})
        ),
        "statefulset-ordinals": Kind(STATEFULSETS, stateful_set(ordinals={"start": -1})),
        "statefulset-ready": Kind(STATEFULSETS, stateful_set(minReadySeconds=-1)),
        "job-indexed": Kind(JOBS, job(completionMode="Indexed")),
        "job-mode": Kind(JOBS, job(completionMode="Other")),
        "job-deadline": Kind(JOBS, job(activeDeadlineSeconds=-1)),
        "job-ttl": Kind(JOBS, job(ttlSecondsAfterFinished=-1)),
        "job-replacement": Kind(JOBS, job(podReplacementPolicy="Maybe")),
        "job-long-name": Kind(JOBS, job("j" * 64)),
        "job-selector": Kind(JOBS, job(selector={"matchLabels": {"a": "b"}})),
        "pdb-selector-values": Kind(
            PDBS, pdb(minAvailable=1, selector={"matchExpressions": [{"key": "k", "operator": "In"}]})
        ),
        "daemonset-strategy": Kind(DAEMONSETS, daemon_set(updateStrategy={"type": "Careless"})),
        "statefulset-policy": Kind(STATEFULSETS, stateful_set(podManagementPolicy="Odd")),
        "job-restart": Kind(JOBS, job(template=template())),
        "job-negative": Kind(JOBS, job(parallelism=-1)),
        "event-place": Kind("events", named("a", involvedObject={"namespace": "elsewhere"})),
        "new-event-time": Kind(EVENTS, named("a", regarding={"namespace": "default"})),
        "crd-name": Kind(CRDS, {**crd("invalid.test", "things", "Thing", {}), "metadata": {"name": "wrong"}}),
        "crd-scope": Kind(CRDS, crd("invalid.test", "things", "Thing", {}, scope="Everywhere")),
        "crd-no-schema": Kind(
            CRDS,
            {
                "metadata": {"name": "things.invalid.test"},
                "spec": {
                    "group": "invalid.test",
                    "scope": "Namespaced",
                    "names": {"plural": "things", "kind": "Thing"},
                    "versions": [{"name": "v1", "served": True, "storage": True}],
                },
            },
        ),
        "crd-two-storages": Kind(
            CRDS,
            {
                "metadata": {"name": "things.invalid.test"},
                "spec": {
                    "group": "invalid.test",
                    "scope": "Namespaced",
                    "names": {"plural": "things", "kind": "Thing"},
                    "versions": [
                        {
                            "name": name,
                            "served": True,
                            "storage": True,
                            "schema": {"openAPIV3Schema": {"type": "object"}},
                        }
                        for name in ("v1", "v2")
                    ],
                },
            },
        ),
        "validating-rules": Kind(VALIDATING, {"webhooks": [{"name": "short"}]}),
    }
)
def invalid(w: World, kind: Kind) -> None:
    w.create(kind.resource, placed(w, kind)[1])


@each(
    {
        "pod-image-is-mutable": (
            Kind("pods", pod()),
            {"spec": {"containers": [{"name": "main", "image": "example.test/app:2"}]}},
        ),
        "pod-node": (Kind("pods", pod(node="n")), {"spec": {"nodeName": "other"}}),
        "pod-command": (
            Kind("pods", pod()),
            {"spec": {"containers": [{"name": "main", "image": "example.test/app:1", "command": ["x"]}]}},
        ),
        "pod-name": (Kind("pods", pod()), {"metadata": {"name": "b"}}),
        "pod-namespace": (Kind("pods", pod()), {"metadata": {"namespace": "default"}}),
        "pod-uid": (Kind("pods", pod()), {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}),
        "pod-creation": (Kind("pods", pod()), {"metadata": {"creationTimestamp": "2001-02-03T04:05:06Z"}}),
        "pod-generation": (Kind("pods", pod()), {"metadata": {"generation": 9}}),
        "pod-kind": (Kind("pods", pod()), {"kind": "ConfigMap"}),
        "pod-version": (Kind("pods", pod()), {"apiVersion": "v2"}),
        "node-provider": (Kind("nodes", {"spec": {"providerID": "a://b"}}), {"spec": {"providerID": "a://c"}}),
        "node-cidr": (Kind("nodes", {"spec": {"podCIDR": "10.1.0.0/24"}}), {"spec": {"podCIDR": "10.2.0.0/24"}}),
        "node-cidrs": (
            Kind("nodes", {"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}}),
            {"spec": {"podCIDRs": ["10.2.0.0/24"]}},
        ),
        "job-suspended-template": (Kind(JOBS, job()), {"spec": {"template": {"metadata": {"labels": {"app": "b"}}}}}),
        "job-parallelism": (Kind(JOBS, job()), {"spec": {"parallelism": -1}}),
        "pod-tolerations-fewer": (
            Kind("pods", pod(tolerations=[{"key": "a", "operator": "Exists"}])),
            {"spec": {"tolerations": []}},
        ),
        "configmap-immutable": (Kind("configmaps", {**config_map(a="1"), "immutable": True}), {"data": {"a": "2"}}),
        "service-ports-are-mutable": (Kind("services", service(80)), {"spec": {"ports": [{"port": 81}]}}),
        "service-address": (Kind("services", service(80)), {"spec": {"clusterIP": "None"}}),
        "service-address-gone": (Kind("services", service(80)), {"spec": {"clusterIP": None, "clusterIPs": None}}),
        "service-becomes-nodeport": (Kind("services", service(80)), {"spec": {"type": "NodePort"}}),
        "service-was-nodeport": (Kind("services", service(80, type="NodePort")), {"spec": {"type": "ClusterIP"}}),
        "service-becomes-external": (
            Kind("services", service(80)),
            {"spec": {"type": "ExternalName", "externalName": "example.test", "clusterIP": None, "clusterIPs": None}},
        ),
        "secret-type": (Kind("secrets", named("a", type="x.test/a")), {"type": "x.test/b"}),
        "secret-immutable": (Kind("secrets", named("a", immutable=True)), {"immutable": False}),
        "deployment-selector": (
            Kind(DEPLOYMENTS, deployment()),
            {
                "spec": {
                    "selector": {"matchLabels": {"app": "b"}},
                    "template": {"metadata": {"labels": {"app": "b"}}},
                }
            },
        ),
        "statefulset-service": (Kind(STATEFULSETS, stateful_set()), {"spec": {"serviceName": "other"}}),
        "job-selector": (Kind(JOBS, job()), {"spec": {"selector": {"matchLabels": {"app": "b"}}}}),
        "job-completions": (Kind(JOBS, job(completions=2)), {"spec": {"completions": 3}}),
        "pdb-selector-is-mutable": (
            Kind(PDBS, pdb(minAvailable=1)),
            {"spec": {"selector": {"matchLabels": {"app": "b"}}}},
        ),
        "finalizer-name": (Kind("configmaps", config_map()), {"metadata": {"finalizers": ["short"]}}),
        "pod-deadline": (Kind("pods", pod()), {"spec": {"activeDeadlineSeconds": 0}}),
        "pod-deadline-is-set": (Kind("pods", pod()), {"spec": {"activeDeadlineSeconds": 5}}),
        "node-deletion": (Kind("nodes", {}), {"metadata": {"deletionTimestamp": "2001-02-03T04:05:06Z"}}),
    }
)
def changed(w: World, given: tuple[Kind, Json]) -> None:
    """Try to change fields that are immutable after creation, and some that are not."""
    kind, change = given
    name, body = placed(w, kind)
    w.create(kind.resource, body)
    w.patch(kind.resource, name, change, show="metadata.generation metadata.name metadata.creationTimestamp spec type")


@each(
    {
        "none": {},
        "request": {"requests": {"cpu": "1"}},
        "limits": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "one-limit": {"limits": {"cpu": "1"}},
    }
)
def quality_of_service(w: World, resources: Json) -> None:
    w.create("pods", pod(containers=[container(resources=resources)]), show="status.qosClass")


@case
def gated_pod(w: World) -> None:
    w.create("pods", pod(schedulingGates=[{"name": "contract.test/gate"}]), show="status")
