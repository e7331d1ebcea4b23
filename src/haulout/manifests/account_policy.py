"""The ValidatingAdmissionPolicy that limits what the operator's account may write to less than its roles allow.

See decision 0192.
"""

from __future__ import annotations

from haulout.manifests.documents import Json

POLICY = "haulout-account"
_API = "admissionregistration.k8s.io/v1"
# What the roles allow to patch, and whose deletion would be more than that. `nodes/status`: owners can be changed by it, too.
_RESOURCES = ("nodes", "nodes/status", "secrets", "machines", "baremetalhosts", "hypervisors")
# With it, Kubernetes deletes the pods of a node that is not ready by force, whatever its effect is.
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
# Annotations by which Cluster API chooses a Machine to delete.
_REQUESTS = ("cluster.x-k8s.io/delete-machine", "cluster.x-k8s.io/remediate-machine")


def account_policy(user: str) -> tuple[Json, Json]:
    """Return the policy for the operator's account, and its binding. `user`: the user name of the account."""
    meta: Json = {"name": POLICY, "labels": {"app.kubernetes.io/managed-by": "haulout"}}
    rule: Json = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": list(_RESOURCES),
        "scope": "*",
    }
    spec: Json = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "by-the-operator", "expression": f"request.userInfo.username == '{user}'"}],
        "validations": [
            {"expression": expression, "message": f"Haulout's account may not {what}", "reason": "Forbidden"}
            for expression, what in _rules()
        ],
    }
    policy = {"apiVersion": _API, "kind": "ValidatingAdmissionPolicy", "metadata": meta, "spec": spec}
    binding = {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": meta,
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    }
    return policy, binding


def user_of(namespace: str, account: str) -> str:
    """Return the user name of a service account."""
    return f"system:serviceaccount:{namespace}:{account}"


def _rules() -> tuple[tuple[str, str], ...]:
    """Return the expressions in CEL that have to be true, each with what it forbids."""
    old_taints, notes = "oldObject.?spec.?taints.orValue([])", "metadata.?annotations.orValue({})"
    ends_pods = f"(t.effect == 'NoExecute' || t.key == '{_OUT_OF_SERVICE}')"
    is_old = f"{old_taints}.exists(o, o.key == t.key && o.effect == t.effect)"
    new_taints = f"object.?spec.?taints.orValue([]).all(t, !{ends_pods} || {is_old})"
    requests = f"{list(_REQUESTS)}.all(k, !(k in object.{notes}) || k in oldObject.{notes})"
    return (
        (_unchanged("metadata.?ownerReferences.orValue([])"), "change owners, by which the garbage collector deletes"),
        (_unchanged("metadata.?finalizers.orValue([])"), "change finalizers"),
        (
            _of("nodes", new_taints),
            f"add a taint with the effect NoExecute, or {_OUT_OF_SERVICE}, which end pods past disruption budgets",
        ),
        (_of("nodes", _unchanged("?spec.?providerID")), "change the providerID of a Node"),
        (_of("machines", _unchanged("?spec")), "change the spec of a Machine"),
        (_of("machines", requests), "ask for the deletion of a Machine"),
        (_of("secrets", "!object.?immutable.orValue(false)"), "make a Secret immutable"),
    )


def _of(resource: str, expression: str) -> str:
    return f"request.resource.resource != '{resource}' || {expression}"


def _unchanged(path: str) -> str:
    return f"object.{path} == oldObject.{path}"
