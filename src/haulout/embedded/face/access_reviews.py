"""Reviews: every action is allowed, but a malformed access review is refused as by the real server. All callers are one user."""

from __future__ import annotations

from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals
from haulout.embedded.rules.refusals import Problem, wrong

_GROUP = "authorization.k8s.io"
WHO = "SelfSubjectReview"
# The user of a client certificate that kubeadm makes for an administrator.
USER = "kubernetes-admin"
_ALL_RULES: Json = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def review(kind: str, spec: Json) -> Json:
    """Return the review with its status. Raises `Invalid`."""
    if kind == WHO:
        user = {"username": USER, "groups": ["system:masters", "system:authenticated"]}
        status: Json = {"userInfo": user}
        return {"kind": kind, "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "status": status}
    rules = kind == "SelfSubjectRulesReview"
    if problems := [] if rules else _problems(kind, spec):
        raise refusals.invalid("", _GROUP, "", problems)
    status = _ALL_RULES if rules else {"allowed": True}
    return {"kind": kind, "apiVersion": f"{_GROUP}/v1", "metadata": {}, "spec": spec, "status": status}


def _problems(kind: str, spec: Json) -> list[Problem]:
    problems, other = [], spec.get("nonResourceAttributes")
    if "resourceAttributes" in spec and other is not None:
        # Printed as the server's own Go type, which no manifest has.
        value = {"Path": other.get("path", ""), "Verb": other.get("verb", "")}
        text = "cannot be specified in combination with resourceAttributes"
        problems.append(wrong("spec.nonResourceAttributes", value, text))
    elif "resourceAttributes" not in spec and other is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        problems.append(wrong("spec.resourceAttributes", None, text))
    if not kind.startswith("Self") and not spec.get("user") and not spec.get("groups"):
        problems.append(wrong("spec.user", "", "at least one of user or group must be specified"))
    return problems
