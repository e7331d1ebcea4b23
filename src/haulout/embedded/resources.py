"""The addresses of the built-in kinds that the parts of the embedded cluster and its callers name."""

from __future__ import annotations

from haulout.embedded.interfaces import Resource

BINDINGS = Resource("", "v1", "bindings")
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions")
CUSTOM_RESOURCE_DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
DAEMON_SETS = Resource("apps", "v1", "daemonsets")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
EVENTS = Resource("", "v1", "events")
JOBS = Resource("batch", "v1", "jobs")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
NAMESPACES = Resource("", "v1", "namespaces")
NODES = Resource("", "v1", "nodes")
PODS = Resource("", "v1", "pods")
REPLICA_SETS = Resource("apps", "v1", "replicasets")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets")
