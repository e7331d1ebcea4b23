"""The Deployments that the originals publish, as data: what a switch changes in them, and what it must leave alone.

The sources: skyhook's chart v0.15.1, the manifests of node-maintenance-operator v0.20 and PIKA (`8a1803e`), and SAP's charts of
maintenance-controller and runtime-extension-maintenance-controller. Volumes that no test reads are left out.
"""

from __future__ import annotations

from haulout.base import yaml
from tests.rig.api import Json

MAINTENANCE_CONTROLLER = """
name: maintenance-controller
containers:
- name: manager
  image: sapcc/maintenance-controller:0.15
  command: [/manager]
  args: [--enable-leader-election]
  volumeMounts: [{name: config, mountPath: /config, readOnly: true}]
  resources: {limits: {cpu: 100m, memory: 30Mi}, requests: {cpu: 100m, memory: 20Mi}}
  livenessProbe: {httpGet: {path: /healthz, port: 8081}, initialDelaySeconds: 3, periodSeconds: 3}
  ports: [{name: metrics, containerPort: 8080}]
volumes: [{name: config, secret: {secretName: maintenance-controller-config, optional: true}}]
"""
NODE_MAINTENANCE_OPERATOR = """
name: node-maintenance-operator-controller-manager
containers:
- name: manager
  image: quay.io/medik8s/node-maintenance-operator:latest
  command: [/manager]
  args: ["--health-probe-bind-address=:8081", "--metrics-bind-address=:8443", --leader-elect, --enable-http2=false]
  env: [{name: OPERATOR_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]
  ports: [{containerPort: 9443, name: webhook-server}, {containerPort: 8443, name: https}]
  resources: {limits: {cpu: 200m, memory: 100Mi}, requests: {cpu: 100m, memory: 20Mi}}
  livenessProbe: {httpGet: {path: /healthz, port: 8081}, initialDelaySeconds: 15, periodSeconds: 20}
  readinessProbe: {httpGet: {path: /readyz, port: 8081}, initialDelaySeconds: 5, periodSeconds: 10}
  securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
  volumeMounts: [{mountPath: /tmp/k8s-webhook-server/serving-certs, name: cert, readOnly: true}]
volumes: [{name: cert, secret: {defaultMode: 420, secretName: webhook-server-cert}}]
"""
PIKA = """
name: pika-controller-manager
containers:
- name: kube-rbac-proxy
  image: quay.io/nvidia/nid-kube-rbac-proxy:amd64-nid-fork-d8cd3c65
  args: ["--secure-listen-address=$(IP):8443", "--upstream=http://127.0.0.1:8092/"]
  env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
  resources: {limits: {cpu: 20m, memory: 30Mi}, requests: {cpu: 10m, memory: 15Mi}}
- name: manager
  image: quay.io/slin/pika:latest
  command: [/manager]
  args: ["--health-probe-bind-address=:8081", "--metrics-bind-address=127.0.0.1:8092"]
  resources: {limits: {cpu: 500m, memory: 128Mi}, requests: {cpu: 10m, memory: 64Mi}}
  securityContext: {allowPrivilegeEscalation: false}
  volumeMounts: [{name: vault-patch, mountPath: /etc/tokens}]
- name: vault-agent
  image: quay.io/nvidia/vault:1.3.0
  command: [/bin/sh, -ec]
  args: [sleep 2 && ls /etc/vault/ && vault agent -config=/etc/vault/config.hcl]
  volumeMounts: [{mountPath: /etc/tokens, name: vault-patch}]
volumes: [{name: vault-patch, emptyDir: {medium: Memory}}]
"""
RUNTIME_EXTENSION = """
name: runtime-extension-maintenance-controller
containers:
- name: runtime-extension-maintenance-controller
  image: ccloud/runtime-extension-maintenance-controller:latest
  command: [/runtime-extension-maintenance-controller]
  ports: [{name: metrics, containerPort: 8080}]
  securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"""
SKYHOOK_OPERATOR = """
name: skyhook-operator-controller-manager
containers:
- name: manager
  image: ghcr.io/nvidia/skyhook/operator:v0.15.1
  command: [/manager]
  env:
  - {name: METRICS_PORT, value: ":8080"}
  - {name: PROBE_PORT, value: ":8081"}
  - {name: LEADER_ELECTION, value: "true"}
  - {name: LOG_LEVEL, value: info}
  - {name: ENABLE_WEBHOOKS, value: "false"}
  - {name: COPY_DIR_ROOT, value: /var/lib/skyhook}
  - {name: REAPPLY_ON_REBOOT, value: "false"}
  - {name: RUNTIME_REQUIRED_TAINT, value: "skyhook.nvidia.com=runtime-required:NoSchedule"}
  - {name: AGENT_IMAGE, value: "ghcr.io/nvidia/skyhook/agent:v6.4.0"}
  - {name: KUBERNETES_CLUSTER_DOMAIN, value: cluster.local}
  resources: {limits: {cpu: 1000m, memory: 512Mi}, requests: {cpu: 500m, memory: 256Mi}}
- name: kube-rbac-proxy
  image: quay.io/brancz/kube-rbac-proxy:v0.18.1
  args: ["--secure-listen-address=0.0.0.0:8443", "--upstream=http://127.0.0.1:8080/"]
  resources: {limits: {cpu: 500m, memory: 128Mi}, requests: {cpu: 5m, memory: 64Mi}}
"""


def deployment(text: str, namespace: str, node_selector: Json) -> Json:
    """Return one of the Deployments above, with its pods on the nodes of a test."""
    facts = yaml.load(text.encode())
    labels = {"control-plane": facts["name"]}
    volumes = [{**each, **_optional(each)} for each in facts.get("volumes", ())]
    pod = {"nodeSelector": node_selector, "containers": facts["containers"], "volumes": volumes}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": facts["name"], "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _optional(volume: Json) -> Json:
    """The Secrets of the originals' certificates are not made here."""
    return {"secret": {**volume["secret"], "optional": True}} if "secret" in volume else {}
