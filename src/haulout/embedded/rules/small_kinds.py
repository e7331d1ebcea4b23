"""Defaults and checks of kinds with few rules: Namespaces, ConfigMaps, Secrets, Leases, roles, webhooks."""

from __future__ import annotations

import base64

from haulout.embedded.interfaces import Json
from haulout.embedded.rules import metadata
from haulout.embedded.rules.refusals import Problem, forbidden_field, missing, too_long, unsupported_value, wrong

# The limit for all data of a ConfigMap or a Secret.
_LARGEST = 1024 * 1024


def namespace_name(name: str) -> tuple[str, ...]:
    return ("must not contain dots",) if "." in name else metadata.label(name)


def default_namespace(namespace: Json, old: Json | None) -> None:
    name, labels = namespace["metadata"].get("name", ""), namespace["metadata"].get("labels", {})
    if name and labels.get("kubernetes.io/metadata.name") != name:
        labels = {**labels, "kubernetes.io/metadata.name": name}
        namespace["metadata"] = {**namespace["metadata"], "labels": labels}


def prepare_namespace(namespace: Json) -> None:
    finalizers = namespace["spec"].get("finalizers", [])
    if "kubernetes" not in finalizers:
        namespace["spec"] = {**namespace["spec"], "finalizers": [*finalizers, "kubernetes"]}
    namespace["status"] = {"phase": "Active"}


def reprepare_namespace(namespace: Json, old: Json) -> None:
    namespace["spec"], namespace["status"] = old["spec"], old["status"]


def check_config_map(config: Json) -> list[Problem]:
    both = [key for key in config.get("data", ()) if key in config.get("binaryData", ())]
    problems = [wrong(f"data[{key}]", key, "duplicate of key present in binaryData") for key in both]
    problems += [
        wrong(f"{member}[{key}]", key, text)
        for member in ("data", "binaryData")
        for key in config.get(member, ())
        for text in metadata.config_key(key)
    ]
    size = sum(len(value.encode()) for value in config.get("data", {}).values())
    if size + _decoded_size(config.get("binaryData", {})) > _LARGEST:
        # The path is the real server's.
        problems.append(too_long("[]", _LARGEST))
    return problems


def _decoded_size(data: Json) -> int:
    return sum(len(base64.b64decode(value)) for value in data.values())


def fixed_config_map(config: Json, old: Json) -> list[Problem]:
    return _frozen(config, old, ("data", "binaryData"))


def default_secret(secret: Json, old: Json | None) -> None:
    secret.setdefault("type", "Opaque")
    text = secret.pop("stringData", None)
    if text:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
        secret["data"] = {**secret.get("data", {}), **encoded}


# The keys that Secrets of these types must have: all of them, or for basic-auth at least one.
_SECRET_KEYS = {
    "kubernetes.io/basic-auth": ("username", "password"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def check_secret(secret: Json) -> list[Problem]:
    data, needed = secret.get("data", {}), _SECRET_KEYS.get(secret["type"], ())
    problems = [wrong(f"data[{key}]", key, text) for key in data for text in metadata.config_key(key)]
    if _decoded_size(data) > _LARGEST:
        problems.append(too_long("data", _LARGEST))
    absent = [key for key in needed if key not in data]
    if secret["type"] != "kubernetes.io/basic-auth" or len(absent) == len(needed):
        problems += [missing(f"data[{key}]") for key in absent]
    return problems


def fixed_secret(secret: Json, old: Json) -> list[Problem]:
    problems = _frozen(secret, old, ("data",))
    if secret["type"] != old["type"]:
        problems.append(wrong("type", secret["type"], "field is immutable"))
    return problems


def _frozen(obj: Json, old: Json, members: tuple[str, ...]) -> list[Problem]:
    if not old.get("immutable"):
        return []
    problems = []
    if not obj.get("immutable"):
        problems.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
    for member in members:
        if obj.get(member) != old.get(member):
            problems.append(forbidden_field(member, "field is immutable when `immutable` is set"))
    return problems


def check_lease(lease: Json) -> list[Problem]:
    spec = lease["spec"]
    problems = []
    if "leaseDurationSeconds" in spec and spec["leaseDurationSeconds"] <= 0:
        problems.append(wrong("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
    if "leaseTransitions" in spec and spec["leaseTransitions"] < 0:
        text = "must be greater than or equal to 0"
        problems.append(wrong("spec.leaseTransitions", spec["leaseTransitions"], text))
    return problems


def check_role(role: Json) -> list[Problem]:
    problems = []
    for index, rule in enumerate(role.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            problems.append(missing(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            continue
        if not rule.get("apiGroups"):
            problems.append(missing(f"{path}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            problems.append(missing(f"{path}.resources", "resource rules must supply at least one resource"))
    return problems


def check_role_binding(binding: Json) -> list[Problem]:
    return _check_binding(binding, ("Role", "ClusterRole"))


def check_cluster_role_binding(binding: Json) -> list[Problem]:
    return _check_binding(binding, ("ClusterRole",))


def _check_binding(binding: Json, kinds: tuple[str, ...]) -> list[Problem]:
    problems, role = [], binding["roleRef"]
    if role.get("kind") not in kinds:
        problems.append(unsupported_value("roleRef.kind", role.get("kind", ""), kinds))
    if not role.get("name"):
        problems.append(missing("roleRef.name"))
    for index, subject in enumerate(binding.get("subjects", ())):
        if not subject.get("name"):
            problems.append(missing(f"subjects[{index}].name"))
        if subject.get("kind") not in {"ServiceAccount", "User", "Group"}:
            known = ("Group", "ServiceAccount", "User")
            problems.append(unsupported_value(f"subjects[{index}].kind", subject.get("kind", ""), known))
        elif subject["kind"] == "ServiceAccount" and not subject.get("namespace"):
            problems.append(missing(f"subjects[{index}].namespace"))
    return problems


def fixed_role_ref(binding: Json, old: Json) -> list[Problem]:
    if binding["roleRef"] == old["roleRef"]:
        return []
    return [wrong("roleRef", binding["roleRef"], "cannot change roleRef")]


def default_binding(binding: Json, old: Json | None) -> None:
    group = "rbac.authorization.k8s.io"
    if not binding["roleRef"].get("apiGroup"):
        binding["roleRef"] = {**binding["roleRef"], "apiGroup": group}
    for subject in binding.get("subjects", ()):
        if subject.get("kind") in {"User", "Group"}:
            subject.setdefault("apiGroup", group)


def default_webhooks(configuration: Json, old: Json | None) -> None:
    mutating = configuration["kind"] == "MutatingWebhookConfiguration"
    for webhook in configuration.get("webhooks", ()):
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        if mutating:
            webhook.setdefault("reinvocationPolicy", "Never")
        if "service" in webhook["clientConfig"]:
            webhook["clientConfig"]["service"].setdefault("port", 443)
        for rule in webhook.get("rules", ()):
            rule.setdefault("scope", "*")


def check_webhooks(configuration: Json) -> list[Problem]:
    problems = []
    for index, webhook in enumerate(configuration.get("webhooks", ())):
        path = f"webhooks[{index}]"
        name = webhook.get("name", "")
        if len(name.split(".")) < 3:
            problems.append(
                wrong(f"{path}.name", name, "should be a domain with at least three segments separated by dots")
            )
        if webhook["failurePolicy"] not in {"Fail", "Ignore"}:
            problems.append(unsupported_value(f"{path}.failurePolicy", webhook["failurePolicy"], ("Fail", "Ignore")))
        if webhook.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            value = webhook.get("sideEffects")
            known = ("None", "NoneOnDryRun")
            found = missing(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
            problems.append(found if value is None else unsupported_value(f"{path}.sideEffects", value, known))
        if not 1 <= webhook["timeoutSeconds"] <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            problems.append(wrong(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], text))
        if ("url" in webhook["clientConfig"]) == ("service" in webhook["clientConfig"]):
            problems.append(missing(f"{path}.clientConfig", "exactly one of url or service is required"))
        if not webhook.get("admissionReviewVersions"):
            problems.append(missing(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1"))
    return problems
