"""Writes the chart with the values of NodeWright's chart, from that with the values of skyhook's: other names, more settings.

See decision 0114.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tools.skyhook_chart import CHART as SKYHOOK_CHART
from tools.skyhook_chart import LOGS

CHART = SKYHOOK_CHART.parent / "nodewright"
# The names of objects begin with that of the release, as in charts that `helm create` makes.
HEAD = """\
{{- $named := and (contains "nodewright" .Release.Name) .Release.Name }}
{{- $fullname := or .Values.fullnameOverride $named (printf "%s-nodewright" .Release.Name) }}
{{- $service := or .Values.webhook.serviceName (printf "%s-webhook-service" $fullname) }}
"""
# The operator finds its webhook configurations by these names.
KEPT = ("skyhook-operator-mutating-webhook", "skyhook-operator-validating-webhook")
REPLACED = {
    "app.kubernetes.io/name: skyhook-operator": "app.kubernetes.io/name: nodewright",
    ".Values.webhook.serviceName": "$service",
    "- skyhook-operator\n": "- nodewright-operator\n",
    "skyhook-operator-": "{{ $fullname }}-",
    "  - name: http\n    port: 8080\n": "  - name: https\n    port: 8443\n",
}
# Values of `controllerManager.manager.env` that the older chart does not have, and their variables.
VARIABLES = {
    "jobTtlSucceeded": "JOB_TTL_SUCCEEDED",
    "jobTtlFailed": "JOB_TTL_FAILED",
    "jobStageTimeout": "JOB_STAGE_TIMEOUT",
    "jobBackoffLimit": "JOB_BACKOFF_LIMIT",
    "publishLegacyMetrics": "PUBLISH_LEGACY_METRICS",
}
BEFORE = "        - name: IMAGE_PULL_SECRET\n"
METRICS_SERVICE = "  name: {{ $fullname }}-controller-manager-metrics-service\n"
# What the operator asks before it serves metrics, which it does over TLS.
REVIEWS = """\
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $fullname }}-metrics-auth
rules:
- apiGroups:
  - authentication.k8s.io
  resources:
  - tokenreviews
  verbs:
  - create
- apiGroups:
  - authorization.k8s.io
  resources:
  - subjectaccessreviews
  verbs:
  - create
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $fullname }}-metrics-auth
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $fullname }}-metrics-auth
subjects:
- kind: ServiceAccount
  name: {{ $fullname }}-controller-manager
  namespace: {{ .Release.Namespace }}
"""
ANNOTATIONS = "{{- if .Values.metricsService.annotations }}\n  annotations: {{ toJson .Values.metricsService.annotations }}\n{{- end }}\n"


def templates() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each template."""
    for path in sorted((SKYHOOK_CHART / "templates").glob("*.yaml")):
        more = REVIEWS if path.name == "roles.yaml" else ""
        yield path.name, HEAD + _renamed(path.read_text()) + more
    for path in sorted((SKYHOOK_CHART / "templates" / "crds").iterdir()):
        yield f"crds/{path.name}", path.read_text()


def _unconditional(text: str, condition: str) -> str:
    """Return a template in which what depends on a condition is always there."""
    before, begin, rest = text.partition(f"{{{{- if {condition} }}}}\n")
    inner, _, after = rest.partition("{{- end }}\n")
    return f"{before}{inner}{after}" if begin else text


def _renamed(text: str) -> str:
    # The end of a failed Job's log is kept in an annotation of the Job, whatever the settings say.
    for condition in LOGS.values():
        text = _unconditional(text, condition)
    for number, name in enumerate(KEPT):
        text = text.replace(name, f"kept-name-{number}")
    for old, new in REPLACED.items():
        text = text.replace(old, new)
    for number, name in enumerate(KEPT):
        text = text.replace(f"kept-name-{number}", name)
    text = text.replace(METRICS_SERVICE, METRICS_SERVICE + ANNOTATIONS)
    return text.replace(BEFORE, "".join(map(_variable, VARIABLES.items())) + BEFORE)


def _variable(pair: tuple[str, str]) -> str:
    value, name = pair
    return f'        - name: {name}\n          value: {{{{ printf "\\"%v\\"" $m.env.{value} }}}}\n'


def main() -> int:
    for name, text in templates():
        path = CHART / "templates" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
