"""Admission webhooks: which are called, what an answer does, and what no answer does."""

from __future__ import annotations

from typing import Any

from tests.contract.build import config_map, node, pod, ready_pod, widget
from tests.contract.registry import case, each
from tests.contract.world import MUTATING, VALIDATING, WIDGETS, World

Json = dict[str, Any]

PROBE = "probe"


def webhook(w: World, act: str, *, resources: tuple[str, ...] = ("configmaps",), group: str = "", **given: Any) -> Json:
    """Return a webhook for this case's namespace only. It is never called for the probes of `settle`."""
    return {
        "name": f"{act}.contract.test",
        "clientConfig": w.hooks.client(act, w.ns),
        "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": list(resources)}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": w.ns}},
        "timeoutSeconds": 30,
        **given,
    }


def install(w: World, *hooks: Json, resource: str = VALIDATING, **meta: Any) -> None:
    """Install a webhook, and wait until the server calls it.

    A webhook of the same configuration that denies probes shows it.
    """
    told = webhook(w, "probe", objectSelector={"matchLabels": {PROBE: "yes"}})
    for hook in hooks:
        selector = hook.get("objectSelector", {})
        absent = {"key": PROBE, "operator": "DoesNotExist"}
        hook["objectSelector"] = {**selector, "matchExpressions": [*selector.get("matchExpressions", []), absent]}
    name = f"{w.ns}-{'v' if resource == VALIDATING else 'm'}"
    w.create(resource, {"metadata": {"name": name, **meta}, "webhooks": [*hooks, told]})
    probe = {"metadata": {"name": PROBE, "labels": {PROBE: "yes"}}}
    path = f"{w.path('configmaps')}?dryRun=All"
    w.wait("webhook is asked", lambda: w.quiet("POST", path, probe).code >= 400)


def asked(w: World, act: str, show: str = "operation") -> None:
    calls = w.hooks.calls(act, w.ns)
    w.note(f"{act} was asked", [{key: call.get(key, "<absent>") for key in show.split()} for call in calls])


@case
def validating_allows(w: World) -> None:
    install(w, webhook(w, "allow"))
    w.create("configmaps", config_map(), show="metadata.name")
    asked(w, "allow", "operation kind resource name namespace oldObject dryRun options requestKind requestResource")


@case
def webhook_is_sent_the_object(w: World) -> None:
    install(w, webhook(w, "allow"))
    w.create("configmaps", config_map(a="1"))
    w.patch("configmaps", "a", {"data": {"a": "2"}})
    w.delete("configmaps", "a")
    asked(w, "allow", "operation object oldObject name")


@each(
    {
        "bare": "deny",
        "told": "deny-told",
        "coded": "deny-coded",
        "warned": "deny-warn",
        "reason": "deny-reason",
        "bad-code": "deny-bad-code",
    }
)
def validating_denies(w: World, act: str) -> None:
    install(w, webhook(w, act))
    w.create("configmaps", config_map())
    w.get("configmaps", "a")


@case
def validating_warns(w: World) -> None:
    install(w, webhook(w, "warn"))
    w.create("configmaps", config_map())
    w.delete("configmaps", "a")


@case
def validating_denies_an_update_and_a_deletion(w: World) -> None:
    w.create("configmaps", config_map())
    install(w, webhook(w, "deny"))
    w.patch("configmaps", "a", {"data": {"a": "1"}})
    w.replace("configmaps", config_map(a="1"))
    w.delete("configmaps", "a")
    w.get("configmaps", "a", show="data")


@case
def validating_of_some_operations(w: World) -> None:
    hook = webhook(w, "deny")
    hook["rules"][0]["operations"] = ["DELETE"]
    install(w, hook)
    w.create("configmaps", config_map())
    w.patch("configmaps", "a", {"data": {"a": "1"}})
    w.delete("configmaps", "a")


@case
def mutating_patches(w: World) -> None:
    install(w, webhook(w, "patch"), resource=MUTATING)
    w.create("configmaps", config_map(), show="metadata.labels")
    w.patch("configmaps", "a", {"metadata": {"labels": None}}, show="metadata.labels")
    asked(w, "patch")


@each({"invalid": "patch-invalid", "failing": "patch-failing", "name": "patch-name"})
def mutating_patches_badly(w: World, act: str) -> None:
    install(w, webhook(w, act), resource=MUTATING)
    w.create("configmaps", config_map())
    w.get("configmaps", "a", show="metadata.name")


@case
def mutating_denies(w: World) -> None:
    install(w, webhook(w, "deny-told"), resource=MUTATING)
    w.create("configmaps", config_map())


@case
def mutating_comes_before_validating(w: World) -> None:
    install(w, webhook(w, "patch"), resource=MUTATING)
    install(w, webhook(w, "allow"))
    w.create("configmaps", config_map())
    calls = w.hooks.calls("allow", w.ns)
    w.note("labels that the second one saw", [call["object"]["metadata"].get("labels") for call in calls])


@each({"broken-ignore": ("broken", "Ignore"), "broken-fail": ("broken", "Fail"), "broken-default": ("broken", None)})
def failure_policy(w: World, row: tuple[str, str | None]) -> None:
    act, policy = row
    given: Json = {"failurePolicy": policy} if policy else {}
    install(w, webhook(w, act, **given))
    w.create("configmaps", config_map())


@each({"ignore": "Ignore", "fail": "Fail"})
def failure_policy_when_nobody_listens(w: World, policy: str) -> None:
    config = {"url": "https://127.0.0.1:1/none", "caBundle": w.hooks.ca_bundle}
    install(w, webhook(w, "none", failurePolicy=policy, clientConfig=config))
    w.create("configmaps", config_map())


@each({"ignore": "Ignore", "fail": "Fail"})
def failure_policy_of_a_mutating_webhook(w: World, policy: str) -> None:
    install(w, webhook(w, "broken", failurePolicy=policy), resource=MUTATING)
    w.create("configmaps", config_map())


@case
def webhook_of_another_namespace(w: World) -> None:
    install(w, webhook(w, "deny", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "no-such"}}))
    w.create("configmaps", config_map())
    asked(w, "deny")


@case
def webhook_with_an_object_selector(w: World) -> None:
    install(w, webhook(w, "deny-told", objectSelector={"matchLabels": {"strict": "yes"}}))
    w.create("configmaps", config_map("a"))
    w.create("configmaps", config_map("b", labels={"strict": "yes"}))
    w.patch("configmaps", "a", {"metadata": {"labels": {"strict": "yes"}}})


@case
def webhook_with_an_object_selector_sees_the_old_object(w: World) -> None:
    w.create("configmaps", config_map("a", labels={"strict": "yes"}))
    install(w, webhook(w, "deny-told", objectSelector={"matchLabels": {"strict": "yes"}}))
    w.patch("configmaps", "a", {"metadata": {"labels": None}})
    w.delete("configmaps", "a")


@case
def webhook_with_a_match_condition(w: World) -> None:
    condition = {"name": "only-b", "expression": "request.name == 'b'"}
    install(w, webhook(w, "deny-told", matchConditions=[condition]))
    w.create("configmaps", config_map("a"))
    w.create("configmaps", config_map("b"))


@case
def webhook_without_side_effects_is_asked_in_dry_runs(w: World) -> None:
    install(w, webhook(w, "allow"))
    w.create("configmaps", config_map(), dryRun="All")
    w.create("configmaps", config_map())
    asked(w, "allow", "operation dryRun")


@case
def webhook_without_side_effects_on_dry_run(w: World) -> None:
    install(w, webhook(w, "deny-told", sideEffects="NoneOnDryRun"))
    w.create("configmaps", config_map(), dryRun="All")
    asked(w, "deny-told", "operation dryRun")


@case
def webhook_with_side_effects_is_not_accepted(w: World) -> None:
    for effects in ("Some", "Unknown", "Odd"):
        body = {"metadata": {"name": w.ns}, "webhooks": [webhook(w, "allow", sideEffects=effects)]}
        w.create(VALIDATING, body)


@case
def webhook_for_widgets(w: World) -> None:
    install(w, webhook(w, "deny-told", resources=("widgets",), group="contract.test"))
    w.create(WIDGETS, widget())
    asked(w, "deny-told", "operation kind resource object")


@case
def webhook_for_status(w: World) -> None:
    install(w, webhook(w, "deny-told", resources=("pods/status",)))
    w.create("pods", pod())
    w.patch("pods", "a", ready_pod(), "status")
    asked(w, "deny-told", "operation kind resource subResource requestSubResource")


@case
def webhook_for_evictions(w: World) -> None:
    install(w, webhook(w, "deny-told", resources=("pods/eviction",)))
    w.create("pods", pod(node="n"))
    w.evict("a")
    w.delete("pods", "a", show="kind")
    asked(w, "deny-told", "operation kind resource subResource name object oldObject")


@case
def webhook_for_deletions_of_pods_sees_no_evictions(w: World) -> None:
    hook = webhook(w, "deny-told", resources=("pods",))
    hook["rules"][0]["operations"] = ["DELETE"]
    install(w, hook)
    w.create("pods", pod(node="n"))
    w.evict("a")
    w.get("pods", "a", show="metadata.deletionTimestamp")
    asked(w, "deny-told", "operation subResource name options")


@case
def webhook_for_cluster_wide_objects(w: World) -> None:
    hook = webhook(w, "deny-told", resources=("nodes",), objectSelector={"matchLabels": {"of": w.ns}})
    hook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": w.ns}}
    install(w, hook)
    body = node(w.ns)
    body["metadata"]["labels"] = {"of": w.ns}
    w.create("nodes", body)


@case
def webhook_configuration_is_completed(w: World) -> None:
    hook = webhook(w, "allow")
    for key in ("namespaceSelector", "timeoutSeconds"):
        hook.pop(key)
    hook["objectSelector"] = {"matchLabels": {"none": w.ns}}
    hook["clientConfig"]["caBundle"] = "Cg=="
    body = {"metadata": {"name": w.ns}, "webhooks": [hook]}
    w.create(VALIDATING, body, show="webhooks", dryRun="All")
    w.create(MUTATING, body, show="webhooks", dryRun="All")


@case
def two_webhooks_and_the_second_denies(w: World) -> None:
    first, second = webhook(w, "warn"), webhook(w, "deny-told")
    install(w, first, second)
    w.create("configmaps", config_map())


@case
def two_webhooks_patch_one_after_the_other(w: World) -> None:
    first, second = webhook(w, "patch"), webhook(w, "patch-annotation")
    install(w, first, second, resource=MUTATING)
    w.create("configmaps", config_map(), show="metadata.labels metadata.annotations")


@case
def webhook_for_every_resource(w: World) -> None:
    hook = webhook(w, "deny-told", resources=("*",), group="*")
    # Without the scope it would be asked about what is in no namespace, whatever the selector says.
    hook["rules"][0].update(apiVersions=["*"], scope="Namespaced")
    install(w, hook)
    w.create("configmaps", config_map())
    w.create(WIDGETS, widget())
    asked(w, "deny-told", "operation resource")


@case
def webhook_for_deletion_of_many(w: World) -> None:
    for name in ("a", "b"):
        w.create("configmaps", config_map(name))
    hook = webhook(w, "deny-told")
    hook["rules"][0]["operations"] = ["DELETE"]
    install(w, hook)
    w.ask("DELETE", w.path("configmaps"))
    asked(w, "deny-told", "operation name")
