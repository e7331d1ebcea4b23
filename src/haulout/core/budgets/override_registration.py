"""How overrides are guarded in a cluster: the registration of our webhook, and a policy for clusters without it."""

from __future__ import annotations

from typing import Any

from haulout.core.steering import BUDGETS, OVERRIDE
from haulout.core.surface import Registration

CONFIGURATION, POLICY = "haulout-overrides", "haulout-overrides"
_NOTES = "metadata.annotations"
# Annotations of Nodes can be changed with their status, too.
_RULES: tuple[dict[str, Any], ...] = (
    {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["nodes", "nodes/status", "nodemaintenances", "notifymaintenances", "skyhooks", "nodewrights"],
        "scope": "*",
    },
)
_HAS_NEW = f"has(object.{_NOTES}) && '{OVERRIDE}' in object.{_NOTES}"
_HAD_SAME = (
    f"oldObject != null && has(oldObject.{_NOTES}) && '{OVERRIDE}' in oldObject.{_NOTES} && "
    f"oldObject.{_NOTES}['{OVERRIDE}'] == object.{_NOTES}['{OVERRIDE}']"
)
# Only writes that set or change the annotation are reviewed, so that no other write waits for the webhook or the policy.
CONDITIONS = ({"name": "sets-an-override", "expression": f"{_HAS_NEW} && !({_HAD_SAME})"},)

OVERRIDES = Registration(
    configuration=CONFIGURATION,
    name="overrides.haulout.dev",
    path="/validate-haulout-dev-override",
    rules=_RULES,
    conditions=CONDITIONS,
    timeout_seconds=10,
)


def override_policy() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the ValidatingAdmissionPolicy that guards overrides without our webhook, and its binding.

    CEL has no clock. The time of the request is that of the newest entry in `managedFields`, which the API server has
    written by then. It keeps no such entries of a Node that was created empty: there the operator alone ends an override
    that lasts too long, because it counts none before the last 24 hours of it.
    """
    api, meta = (
        "admissionregistration.k8s.io/v1",
        {"name": POLICY, "labels": {"app.kubernetes.io/managed-by": "haulout"}},
    )
    check = f"authorizer.group('{BUDGETS.group}').resource('{BUDGETS.resource}').name(variables.limit).check('override').allowed()"
    form = f"'annotation {OVERRIDE}: it is not JSON with limit, reason and until, without backslashes'"
    missing = f"'annotation {OVERRIDE}: you lack the right to override resource {BUDGETS.named} ' + variables.limit"
    once = " && ".join(f"variables.text.split('\"{each}\"').size() == 2" for each in ("limit", "reason", "until"))
    shape = f"!variables.text.contains('\\\\') && {once} && variables.limit != '' && variables.until != ''"
    has_reason = """variables.text.matches('"reason" *: *"[^"]*[^" ][^"]*"')"""
    no_reason = f"'annotation {OVERRIDE}: its reason is empty'"
    longest = (
        "!has(object.metadata.managedFields) || object.metadata.managedFields.exists(each, has(each.time) && "
        "timestamp(variables.until) <= timestamp(each.time) + duration('24h1m'))"
    )
    too_long = f"'annotation {OVERRIDE}: it lasts for longer than 24h'"
    forms = ((shape, form), (has_reason, no_reason), (longest, too_long), (check, missing))
    limit = (
        "variables.text.find('\"limit\" *: *\"[a-z0-9.-]+\"') == '' ? '' : "
        'variables.text.find(\'"limit" *: *"[a-z0-9.-]+"\').split(\'"\')[3]'
    )
    until = (
        "variables.text.find('\"until\" *: *\"[0-9TZtz:.+-]+\"') == '' ? '' : "
        'variables.text.find(\'"until" *: *"[0-9TZtz:.+-]+"\').split(\'"\')[3]'
    )
    policy = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": meta,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [dict(rule) for rule in _RULES]},
            "matchConditions": [dict(each) for each in CONDITIONS],
            "variables": [
                {"name": "text", "expression": f"object.{_NOTES}['{OVERRIDE}']"},
                {"name": "limit", "expression": limit},
                {"name": "until", "expression": until},
            ],
            "validations": [
                {"expression": expression, "messageExpression": message, "reason": "Forbidden"}
                for expression, message in forms
            ],
        },
    }
    binding = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": meta,
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    }
    return policy, binding
