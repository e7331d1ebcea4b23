"""Writes the definitions, roles and webhooks of the chart with the original's values: those that `haulout crds`, `rbac` and `webhooks` print.

See decision 0114.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from haulout.cli.rbac import documents
from haulout.core.rights import CLUSTER, COORDINATION, FOLLOW, READ, TELL, Right, Role
from haulout.manifests.documents import Json, yaml_document
from haulout.manifests.rights import Choice, PlacedRole, default_names, options, placed_roles
from haulout.manifests.webhooks import PORT, certificate_secret, configurations
from haulout.surfaces.packages.declare import (
    GROUP,
    MUTATE_SKYHOOK,
    POLICIES,
    SKYHOOKS,
    SURFACE,
    VALIDATE_SKYHOOK,
)
from haulout.surfaces.registry import definition_of

CHART = Path(__file__).parent.parent / "deploy" / "skyhook-operator"
ACCOUNT = "skyhook-operator-controller-manager"
# Stand-ins for values that a release chooses, and what replaces them in a template.
NAMESPACE, SECRET, SERVICE = "release-namespace", "release-secret", "release-service"
PLACES = {
    NAMESPACE: "{{ .Release.Namespace }}",
    SECRET: "{{ .Values.webhook.secretName }}",
    SERVICE: "{{ .Values.webhook.serviceName }}",
    # Other names than those of our own chart, so that both can be installed in one cluster.
    "name: haulout-": "name: skyhook-operator-",
}
# Roles for people, and the chart's values that switch them on.
PEOPLE = {
    "skyhook-viewer-role": ".Values.rbac.createSkyhookViewerRole",
    "skyhook-editor-role": ".Values.rbac.createSkyhookEditorRole",
    "nodewright-viewer-role": ".Values.rbac.createSkyhookViewerRole",
    "nodewright-editor-role": ".Values.rbac.createSkyhookEditorRole",
}
# Roles that only some settings need, and when they are made. A setting may be written as a text or as a truth value.
LOGS = {"haulout-packages-logs": 'eq (printf "%v" .Values.controllerManager.manager.env.keepFailureLogs) "true"'}
METRICS_READER = "haulout-metrics-reader"
WAY_BACK = "haulout-original"
HOOKS_GROUP = "admissionregistration.k8s.io"
HOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_ALL = (*READ, "create", "update", "patch", "delete")
# The rights of the original's own role, so that its image works in a release of this chart.
ORIGINAL_RIGHTS = (
    Right(HOOKS_GROUP, HOOKS, ("get", "update"), names=(MUTATE_SKYHOOK.configuration, VALIDATE_SKYHOOK.configuration)),
    Right(HOOKS_GROUP, HOOKS, FOLLOW),
    Right("", ("configmaps", "pods", "secrets"), _ALL),
    Right("", ("events",), TELL),
    Right("", ("nodes",), (*READ, "update", "patch")),
    Right("", ("nodes/status",), ("get", "update", "patch")),
    Right("", ("pods/eviction",), ("create",)),
    Right("", ("pods/status",), ("get",)),
    Right(COORDINATION, ("leases",), _ALL),
    Right(GROUP, (SKYHOOKS,), _ALL),
    Right(GROUP, (f"{SKYHOOKS}/finalizers",), ("update",)),
    Right(GROUP, (f"{SKYHOOKS}/status",), ("get", "update", "patch")),
    Right(GROUP, (POLICIES,), READ),
)


def templates() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each template that is not written by hand."""
    yield "roles.yaml", _filled("".join(_role(placed) for placed in (*_roles(), _way_back())))
    # The original's chart has its definitions among its templates, too. If an upgrade from it did not find them there,
    # Helm would delete them with all Skyhooks.
    for name in SURFACE.crds:
        definition = yaml.safe_load(definition_of(SURFACE, name))
        definition["metadata"].setdefault("annotations", {})["helm.sh/resource-policy"] = "keep"
        yield f"crds/{name}.yaml", yaml_document(definition).replace("{{", '{{ "{{" }}')
    hooks = _filled(_text([_service(), *configurations(SURFACE.webhooks, NAMESPACE, SERVICE)]))
    yield "webhooks.yaml", _where(".Values.webhook.enable", hooks + _certificate())


def _certificate() -> str:
    """Return the Secret of the webhooks' certificate, which the operator may fill but not create.

    The original makes it itself: Helm would refuse to bring one that is there already. Once it is there, no release has it,
    and Helm must not delete it for that.
    """
    secret = certificate_secret(NAMESPACE, SECRET)
    secret["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    is_missing = 'not (lookup "v1" "Secret" .Release.Namespace .Values.webhook.secretName)'
    return _where(is_missing, _filled(yaml_document(secret)))


def _choice() -> Choice:
    names = {**default_names(), "packages_namespace": NAMESPACE, "webhook_secret": SECRET}
    lists: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name, option in options().items() if option.lists}
    lists["original_lease"] = {NAMESPACE: ()}
    return Choice(NAMESPACE, ACCOUNT, names, frozenset({"own_certificates", "delete_pods", "failure_logs"}), lists)


def _roles() -> Iterator[PlacedRole]:
    for surface in ("kernel", SURFACE.name):
        for placed in placed_roles(surface, _choice()):
            # NodeDisruptionBudgets and MaintenanceRecords are not part of the original.
            if not placed.role.name.startswith(("nodedisruptionbudget-", "maintenancerecord-")):
                yield placed


def _way_back() -> PlacedRole:
    role = Role(SURFACE.name, CLUSTER, ORIGINAL_RIGHTS, title=WAY_BACK)
    return PlacedRole(role, "", role.rights)


def _role(placed: PlacedRole) -> str:
    text = _text(documents([placed], _choice()))
    name = placed.role.name
    if name == METRICS_READER:
        return text + _where(".Values.metrics.addServiceAccountBinding", yaml_document(_metrics_binding()))
    conditions = PEOPLE | LOGS | {WAY_BACK: ".Values.rbac.createOriginalRole"}
    return _where(conditions[name], text) if name in conditions else text


def _metrics_binding() -> Json:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": METRICS_READER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": METRICS_READER},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }


def _service() -> Json:
    selector = {"control-plane": "controller-manager", "app.kubernetes.io/name": "skyhook-operator"}
    ports = [{"name": "webhooks", "port": 443, "targetPort": PORT, "protocol": "TCP"}]
    meta = {"name": SERVICE, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": selector, "ports": ports}}


def _text(made: Iterable[Json]) -> str:
    return "".join(map(yaml_document, made))


def _where(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def _filled(text: str) -> str:
    for stand_in, place in PLACES.items():
        text = text.replace(stand_in, place)
    return text


def main() -> int:
    for name, text in templates():
        path = CHART / "templates" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
