"""Makes the OLM bundle: a ClusterServiceVersion from what `haulout manifests` prints.

OLM makes the certificate of webhooks and registers them itself, so the bundle has neither. It binds roles in the namespace of
the operator or in the whole cluster only: rights in other namespaces become rights in the whole cluster, as in the bundle of
medik8s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import yaml

Json = dict[str, Any]
SURFACE = "nodemaintenance"
NAMESPACE, ACCOUNT = "haulout-system", "haulout"
# OLM mounts the certificate of the webhooks there.
CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"
ANNOTATIONS = {
    "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
    "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
    "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
    "operators.operatorframework.io.bundle.package.v1": "haulout",
    "operators.operatorframework.io.bundle.channels.v1": "stable",
    "operators.operatorframework.io.bundle.channel.default.v1": "stable",
}
KEPT = ("admissionReviewVersions", "failurePolicy", "matchPolicy", "rules", "sideEffects", "timeoutSeconds")
DESCRIPTION = """\
Haulout takes Kubernetes nodes out of service and puts them back. This bundle serves NodeMaintenances
(`nodemaintenance.medik8s.io/v1beta1`) in place of the Node Maintenance Operator of medik8s: remove the subscription of
that operator first, because OLM lets one operator own a definition. NodeMaintenances stay as they are.

NodeDisruptionBudgets limit how many nodes are out of service at once, MaintenanceRecords remember each maintenance, and
`haulout explain NODE` says what a node waits for. Overrides of budgets have no effect in this installation, because OLM cannot
register the webhook that guards them. See https://haulout.dev/migration/.
"""


def bundle(manifests: Iterable[Json], version: str, created: str, icon: str) -> dict[str, str]:
    """Return the files of the bundle, by path. `created`: the instant of the release, in RFC 3339. `icon`: SVG in base64."""
    objects = list(manifests)
    definitions = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    settings = next(each for each in objects if each["kind"] == "ConfigMap")
    files = {
        "metadata/annotations.yaml": {"annotations": ANNOTATIONS},
        "manifests/haulout.clusterserviceversion.yaml": _service_version(objects, definitions, version, created, icon),
        "manifests/haulout_v1_configmap.yaml": _settings(settings),
        **{f"manifests/{each['metadata']['name']}.yaml": each for each in definitions},
        **{
            f"manifests/{each['metadata']['name']}_rbac.authorization.k8s.io_v1_clusterrole.yaml": each
            for each in objects
            if each["kind"] == "ClusterRole" and not _bound(objects, each)
        },
    }
    texts = {path: yaml.safe_dump(content, sort_keys=False, width=120) for path, content in sorted(files.items())}
    return {"bundle.Dockerfile": recipe(), **texts}


def recipe() -> str:
    """Return the recipe of the bundle's image, whose labels are the annotations."""
    labels = "".join(f"LABEL {name}={value}\n" for name, value in ANNOTATIONS.items())
    return f"FROM scratch\n\n{labels}\nCOPY manifests /manifests/\nCOPY metadata /metadata/\n"


def _service_version(objects: list[Json], definitions: list[Json], version: str, created: str, icon: str) -> Json:
    deployment = next(each for each in objects if each["kind"] == "Deployment")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": f"haulout.v{version}",
            "namespace": "placeholder",
            "annotations": {
                "capabilities": "Full Lifecycle",
                "categories": "OpenShift Optional",
                "containerImage": image,
                "createdAt": created,
                "description": "Takes nodes out of service and puts them back, with one budget and an answer to why it waits",
                "operatorframework.io/suggested-namespace": NAMESPACE,
                "alm-examples": _examples(),
            },
        },
        "spec": {
            "displayName": "Haulout",
            "description": DESCRIPTION,
            "version": version,
            "minKubeVersion": "1.29.0",
            "maturity": "beta",
            "provider": {"name": "Haulout", "url": "https://haulout.dev/"},
            "maintainers": [{"name": "Haulout", "email": "maintainers@haulout.dev"}],
            "links": [{"name": "Documentation", "url": "https://haulout.dev/"}],
            "keywords": ["node", "maintenance", "drain", "cordon", "budget"],
            "icon": [{"base64data": icon, "mediatype": "image/svg+xml"}],
            "installModes": [
                {"type": mode, "supported": mode == "AllNamespaces"}
                for mode in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
            ],
            "customresourcedefinitions": {"owned": [_owned(each) for each in definitions]},
            "install": {
                "strategy": "deployment",
                "spec": {
                    "clusterPermissions": [{"serviceAccountName": ACCOUNT, "rules": list(_rules(objects, own=False))}],
                    "permissions": [{"serviceAccountName": ACCOUNT, "rules": list(_rules(objects, own=True))}],
                    "deployments": [
                        {
                            "name": deployment["metadata"]["name"],
                            "label": deployment["spec"]["selector"]["matchLabels"],
                            "spec": deployment["spec"],
                        }
                    ],
                },
            },
            "webhookdefinitions": list(_webhooks(objects, deployment["metadata"]["name"])),
        },
    }


def _settings(settings: Json) -> Json:
    content = yaml.safe_load(settings["data"]["haulout.yaml"])
    content["webhooks"] = {"certificates": CERTIFICATES}
    meta = {key: value for key, value in settings["metadata"].items() if key != "namespace"}
    return {**settings, "metadata": meta, "data": {"haulout.yaml": yaml.safe_dump(content, sort_keys=False)}}


def _bound(objects: list[Json], role: Json) -> list[Json]:
    """Return the bindings that give a role to the operator."""
    place = role["metadata"].get("namespace")
    return [
        each
        for each in objects
        if each["kind"] == f"{role['kind']}Binding"
        and each["metadata"].get("namespace") == place
        and each["roleRef"]["name"] == role["metadata"]["name"]
        and any(subject["name"] == ACCOUNT for subject in each["subjects"])
    ]


def _rules(objects: list[Json], *, own: bool) -> Iterator[Json]:
    """Yield the rules of the operator's roles: in its own namespace, or elsewhere and in the whole cluster."""
    for each in objects:
        is_own = each["kind"] == "Role" and each["metadata"]["namespace"] == NAMESPACE
        if each["kind"] in {"Role", "ClusterRole"} and is_own is own and _bound(objects, each):
            yield from each["rules"]


def _owned(definition: Json) -> Json:
    spec = definition["spec"]
    return {
        "name": definition["metadata"]["name"],
        "kind": spec["names"]["kind"],
        "version": next(each["name"] for each in spec["versions"] if each["storage"]),
        "displayName": spec["names"]["kind"],
        "description": spec["versions"][0]["schema"]["openAPIV3Schema"].get("description", spec["names"]["kind"]),
    }


def _webhooks(objects: list[Json], deployment: str) -> Iterator[Json]:
    """Yield the webhooks that OLM can register.

    It knows no match conditions. Without theirs, the webhooks that note who asks and guard overrides would be called for
    every write of every Node, and one of them would stop those writes while no replica answers.
    """
    kinds = {
        "ValidatingWebhookConfiguration": "ValidatingAdmissionWebhook",
        "MutatingWebhookConfiguration": "MutatingAdmissionWebhook",
    }
    for each in objects:
        for webhook in each.get("webhooks", ()) if each["kind"] in kinds else ():
            if "matchConditions" in webhook:
                continue
            yield {
                "type": kinds[each["kind"]],
                "generateName": webhook["name"],
                "deploymentName": deployment,
                "containerPort": 443,
                "targetPort": 9443,
                "webhookPath": webhook["clientConfig"]["service"]["path"],
                **{name: webhook[name] for name in KEPT if name in webhook},
            }


def _examples() -> str:
    return """[
  {
    "apiVersion": "nodemaintenance.medik8s.io/v1beta1",
    "kind": "NodeMaintenance",
    "metadata": {"name": "nodemaintenance-sample"},
    "spec": {"nodeName": "node02", "reason": "Test node maintenance"}
  },
  {
    "apiVersion": "haulout.dev/v1alpha1",
    "kind": "NodeMaintenanceSet",
    "metadata": {"name": "new-kernel"},
    "spec": {"nodes": ["node03", "node04"], "reason": "New kernel"}
  },
  {
    "apiVersion": "haulout.dev/v1alpha1",
    "kind": "NodeDisruptionBudget",
    "metadata": {"name": "one-at-a-time"},
    "spec": {"maxUnavailable": 1}
  }
]"""
