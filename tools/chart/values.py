"""The values of the Helm chart, declared once: values.yaml, its schema and the reference page follow from them.

What only some surfaces have (switches, options, names, configuration files) comes from their declarations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from haulout.core.budgets.declare import OWN_CERTIFICATES
from haulout.core.rights import Name, Option
from haulout.core.surface_names import BUILT_IN
from haulout.manifests.deployment import CONTAINER_SECURITY, POD_SECURITY, PRIORITY, RESOURCES, TOLERATIONS
from haulout.manifests.rights import options
from haulout.surfaces.registry import all_declarations as all_declared
from haulout.surfaces.registry import surface as declared
from tools.chart import shapes
from tools.chart.settings_schema import settings_schema
from tools.chart.shapes import COUNT, LABELS, MAP, MAYBE_NAME, NAME, NUMBER_OR_PERCENT, PORT, TRUTH, Json, array

SERVICE_TYPE: Json = {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]}
CONSOLE_RESOURCES: Json = {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "384Mi"}}
# Pods of Prometheus, as its operator and its charts label them.
PROMETHEUS = [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}}]

# What a group of values is for.
GROUPS = {
    "image": "The image of the operator and of the console.",
    "surfaces": (
        "Which surfaces are installed: each that is true gets its definitions, its roles and its webhooks, and is served. Settings of a "
        "surface are in settings.surfaces."
    ),
    "crds": "The custom resource definitions.",
    "serviceAccount": "The service account of the operator.",
    "podDisruptionBudget": (
        "Keeps pods of the operator running while nodes are drained. It applies from two replicas on: with one, it would keep its "
        "node from being drained."
    ),
    "ports": "The ports on which the operator listens. With hostNetwork, ports of the node.",
    "service": "The Service of metrics and information.",
    "webhooks": "The admission webhooks of the surfaces.",
    "networkPolicy": (
        "NetworkPolicies for the operator and the console. Kubernetes always lets the kubelet of a pod's own node through, so the port "
        "of the probes is closed to others."
    ),
    "serviceMonitor": "A ServiceMonitor for the Prometheus operator.",
    "prometheusRule": "The alerts, as a PrometheusRule for the Prometheus operator.",
    "dashboards": "The Grafana dashboard, in a ConfigMap that Grafana's sidecar finds by its label.",
    "console": "The web console, in a Deployment of its own that only reads.",
    "console.service": "The Service of the console.",
}


class Value(msgspec.Struct, frozen=True):
    """A value of the chart.

    `path`: where it is in values.yaml, with dots. `schema`: the JSON schema of its content.
    """

    path: str
    default: Any
    schema: Json
    help: str


def key(name: str) -> str:
    """Return the name of a value, such as `leaseNamespace` for the option or name `lease_namespace`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def with_files() -> tuple[str, ...]:
    """Return the surfaces with a configuration file, which a release mounts."""
    return tuple(name for name in BUILT_IN if declared(name).config_file is not None)


def chosen_options() -> dict[str, Option]:
    """Return the options that are values. Who makes the webhooks' certificate follows from `webhooks.certificates`."""
    return {name: option for name, option in options().items() if name != OWN_CERTIFICATES}


def chosen_names() -> tuple[Name, ...]:
    return tuple(each for surface in all_declared() for each in surface.names)


def values() -> Iterator[Value]:
    """Yield all values, in the order of values.yaml."""
    yield Value("nameOverride", "", shapes.BEGINNING, "Replaces the chart's name in the names of objects.")
    yield Value(
        "fullnameOverride",
        "",
        shapes.BEGINNING,
        "Replaces the beginning of the names of objects, which is the release's name.",
    )
    yield Value("commonLabels", {}, LABELS, "Labels that every object gets, beside Helm's own.")
    yield Value("image.repository", "haulout", shapes.REPOSITORY, "The image, without its tag.")
    yield Value("image.tag", "", shapes.TAG, "Its tag. Empty: the chart's appVersion.")
    yield Value(
        "image.digest",
        "",
        shapes.DIGEST,
        "Its digest, which wins over the tag.",
    )
    yield Value(
        "image.pullPolicy", "IfNotPresent", {"enum": ["Always", "IfNotPresent", "Never"]}, "When nodes pull it."
    )
    yield Value("imagePullSecrets", [], shapes.PULL_SECRETS, "The Secrets with which it is pulled, as in a pod.")
    yield Value("replicas", 2, COUNT, "The number of replicas, of which one acts at a time.")
    for name in BUILT_IN:
        yield Value(f"surfaces.{name}", not declared(name).is_installed_by_name, TRUTH, declared(name).summary)
    yield Value(
        "accountPolicy",
        True,
        TRUTH,
        "Limit the operator's account to less than its roles allow, by a ValidatingAdmissionPolicy (Kubernetes 1.30 and later).",
    )
    yield Value(
        "foreignSurfaces",
        [],
        array({"type": "string", "minLength": 1, "not": {"enum": list(BUILT_IN)}}),
        "Surfaces of other packages in your image, which are served with settings.surfaces.NAME. Their roles and definitions are yours to install.",
    )
    yield Value(
        "settings",
        {},
        settings_schema(),
        "The haulout.yaml as a map (docs/reference/settings.md). It is merged into what the chart writes, and stored in a ConfigMap: passwords do not belong in it.",
    )
    for name in with_files():
        file = declared(name).config_file
        assert file is not None
        yield Value(
            f"{name}.config",
            {},
            MAP,
            f"The {file.name} as a map, stored in a ConfigMap. Empty: you create the ConfigMap FULLNAME-{name}, or name a Secret.",
        )
        yield Value(
            f"{name}.configSecret",
            "",
            MAYBE_NAME,
            f"The Secret whose entry {file.name} is the configuration file, for files with passwords. Its other entries are mounted beside it, in /etc/haulout/{name}.",
        )
    yield from _objects()
    yield from _pods()
    yield from _network()
    yield from _monitoring()
    yield from _console()
    yield from _of_surfaces()


def _objects() -> Iterator[Value]:
    yield Value(
        "crds.install",
        True,
        TRUTH,
        "Install and upgrade the definitions of the surfaces that are on, with the release.",
    )
    yield Value(
        "crds.keep",
        True,
        TRUTH,
        "Keep the definitions, and so the objects of these kinds, when the release is uninstalled.",
    )
    yield Value(
        "serviceAccount.create", True, TRUTH, "Create it. If not, name one that exists; the roles are bound to it."
    )
    yield Value("serviceAccount.name", "", MAYBE_NAME, "Its name. Empty: that of the release.")
    yield Value(
        "serviceAccount.annotations", {}, LABELS, "Its annotations, for example for the identity service of a cloud."
    )


def _pods() -> Iterator[Value]:
    yield Value("podAnnotations", {}, LABELS, "Annotations of the operator's pods.")
    yield Value("podLabels", {}, LABELS, "Labels of the operator's pods.")
    yield Value("resources", RESOURCES, shapes.RESOURCES, "Resources of the operator's container.")
    yield Value("priorityClassName", PRIORITY, MAYBE_NAME, "The priority class of the operator's pods.")
    yield Value("nodeSelector", {}, LABELS, "The nodes on which the operator may run.")
    yield Value("tolerations", TOLERATIONS, shapes.TOLERATIONS, "The taints that the operator tolerates.")
    yield Value(
        "affinity",
        None,
        shapes.AFFINITY,
        "Affinity of the operator's pods. null: they prefer different nodes; {}: none.",
    )
    yield Value(
        "topologySpreadConstraints",
        None,
        shapes.SPREAD,
        "How the operator's pods are spread. null: evenly over zones where possible; []: not at all.",
    )
    yield Value("hostNetwork", False, TRUTH, "Use the network of the node.")
    yield Value(
        "podSecurityContext",
        POD_SECURITY,
        shapes.POD_SECURITY,
        "Security context of all pods. It names no user, as OpenShift's restricted-v2 wants it: the image's is 65532.",
    )
    yield Value("securityContext", CONTAINER_SECURITY, shapes.CONTAINER_SECURITY, "Security context of all containers.")
    yield Value("podDisruptionBudget.enabled", True, TRUTH, "Create it, if there are two replicas or more.")
    yield Value(
        "podDisruptionBudget.minAvailable", None, NUMBER_OR_PERCENT, "So many pods stay. It has to be below replicas."
    )
    yield Value(
        "podDisruptionBudget.maxUnavailable",
        None,
        NUMBER_OR_PERCENT,
        "So many pods may be missing. 1, if neither is set.",
    )
    yield Value(
        "env",
        [],
        shapes.VARIABLES,
        "Variables of the environment as in a container, also from Secrets. Configuration files may use them as ${NAME}.",
    )
    yield Value(
        "envFrom",
        [],
        shapes.VARIABLE_SOURCES,
        "Secrets and ConfigMaps whose entries become variables, as in a container.",
    )
    yield Value("extraVolumes", [], shapes.VOLUMES, "Further volumes as in a pod, for example Secrets.")
    yield Value("extraVolumeMounts", [], shapes.MOUNTS, "Where they are mounted, as in a container.")


def _network() -> Iterator[Value]:
    yield Value("ports.http", 8080, PORT, "Metrics and information.")
    yield Value("ports.probes", 8081, PORT, "The probes.")
    yield Value("ports.webhooks", 9443, PORT, "The admission webhooks.")
    yield Value("service.type", "ClusterIP", SERVICE_TYPE, "Its type.")
    yield Value("service.port", 8080, PORT, "Its port.")
    yield Value("service.annotations", {}, LABELS, "Its annotations.")
    yield Value(
        "webhooks.enabled",
        True,
        TRUTH,
        "Register and serve them. Without them, objects are checked by their definitions alone.",
    )
    yield Value(
        "webhooks.certificates",
        "self",
        {"enum": ["self", "cert-manager", "provided"]},
        "Who makes the certificate. self: the operator; cert-manager: cert-manager, by an Issuer of the release; provided: you, as tls.crt and tls.key in the Secret webhookSecret, and webhooks.caBundle.",
    )
    yield Value(
        "webhooks.caBundle", "", shapes.BASE64, "The authority of a provided certificate, PEM in base64, in one line."
    )
    yield Value("networkPolicy.enabled", False, TRUTH, "Create them.")
    yield Value(
        "networkPolicy.metricsFrom", PROMETHEUS, shapes.PEERS, "Who may read metrics, as peers of a NetworkPolicy."
    )
    yield Value(
        "networkPolicy.webhooksFrom",
        [],
        shapes.PEERS,
        "Who may ask the webhooks: the addresses of your API servers, as [{ipBlock: {cidr: 10.0.0.0/28}}]. Empty: everyone, because API servers cannot be named otherwise.",
    )
    yield Value("networkPolicy.consoleFrom", [], shapes.PEERS, "Who may reach the console. Empty: everyone.")


def _monitoring() -> Iterator[Value]:
    yield Value(
        "serviceMonitor.enabled",
        False,
        TRUTH,
        "Create it. The cluster needs the definitions of the Prometheus operator.",
    )
    yield Value("serviceMonitor.interval", "30s", shapes.SCRAPE_INTERVAL, "How often metrics are read.")
    yield Value("serviceMonitor.labels", {}, LABELS, "Its labels, by which your Prometheus selects it.")
    yield Value(
        "prometheusRule.enabled",
        False,
        TRUTH,
        "Create it. The cluster needs the definitions of the Prometheus operator.",
    )
    yield Value("prometheusRule.labels", {}, LABELS, "Its labels, by which your Prometheus selects it.")
    yield Value("dashboards.enabled", False, TRUTH, "Create it.")
    yield Value("dashboards.labels", {"grafana_dashboard": "1"}, LABELS, "Its labels, by which the sidecar finds it.")
    yield Value("dashboards.annotations", {}, LABELS, "Its annotations, for example for a folder of Grafana.")


def _console() -> Iterator[Value]:
    yield Value("console.enabled", False, TRUTH, "Install the console.")
    yield Value("console.replicas", 1, COUNT, "The number of its replicas.")
    yield Value("console.tlsSecret", "", MAYBE_NAME, "The Secret with tls.crt and tls.key of the console.")
    yield Value(
        "console.extraContainers",
        [],
        shapes.CONTAINERS,
        "Without tlsSecret: the proxy that ends TLS in the same pod, at proxyPort, and passes the callers' tokens to 127.0.0.1:8443.",
    )
    yield Value("console.proxyPort", 4180, PORT, "The port of that proxy.")
    yield Value(
        "console.extraVolumes", [], shapes.VOLUMES, "Further volumes of its pods, for example the proxy's certificate."
    )
    yield Value("console.podAnnotations", {}, LABELS, "Annotations of its pods.")
    yield Value("console.podLabels", {}, LABELS, "Labels of its pods.")
    yield Value("console.resources", CONSOLE_RESOURCES, shapes.RESOURCES, "Resources of its container.")
    yield Value("console.nodeSelector", {}, LABELS, "The nodes on which it may run.")
    yield Value("console.tolerations", [], shapes.TOLERATIONS, "The taints that it tolerates.")
    yield Value("console.affinity", None, shapes.AFFINITY, "Its affinity, as that of the operator.")
    yield Value("console.service.type", "ClusterIP", SERVICE_TYPE, "Its type.")
    yield Value("console.service.port", 443, PORT, "Its port.")
    yield Value("console.service.annotations", {}, LABELS, "Its annotations.")


def _of_surfaces() -> Iterator[Value]:
    for name, option in chosen_options().items():
        yield Value(key(name), _default(option), _schema(option), f"{option.help}{_form(option)}")
    yield Value(
        "limitRange",
        None,
        shapes.LIMITS,
        "Resources of containers in packagesNamespace that set none, as {default: {cpu: 500m}, defaultRequest: {cpu: 250m}}.",
    )
    for each in chosen_names():
        yield Value(key(each.name), each.default, NAME, f"The setting {each.setting}, which roles name, too.")
    yield Value(
        "createNamespaces",
        True,
        TRUTH,
        "Create the namespaces of surfaces. Off where they exist. They stay when the release is uninstalled.",
    )


def _form(option: Option) -> str:
    if not option.lists:
        return ""
    return " As {NAMESPACE: [NAME, ...]}." if option.has_names else " A list of namespaces."


def _default(option: Option) -> Any:
    return option.default if not option.lists else {} if option.has_names else []


def _schema(option: Option) -> Json:
    if not option.lists:
        return TRUTH
    names: Json = {**array(NAME), "minItems": 1}
    # Not by propertyNames: Helm would name a wrong place.
    by_namespace = {"type": "object", "patternProperties": {f"^{shapes.LABEL}$": names}, "additionalProperties": False}
    return by_namespace if option.has_names else array(shapes.NAMESPACE)


def values_text() -> str:
    """Return values.yaml. A comment `# --` describes the key below it, as helm-docs reads it."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield "# The values of Haulout's chart. Made by `python -m tools.chart`; docs/reference/chart.md has them as a table."
    open_groups: list[str] = []
    for value in values():
        *groups, last = value.path.split(".")
        shared = 0
        while shared < min(len(groups), len(open_groups)) and groups[shared] == open_groups[shared]:
            shared += 1
        if not groups:
            yield ""
        for depth in range(shared, len(groups)):
            yield from [""] if depth == 0 else []
            yield from _comment(GROUPS.get(".".join(groups[: depth + 1]), ""), "  " * depth)
            yield f"{'  ' * depth}{groups[depth]}:"
        open_groups = groups
        indent = "  " * len(groups)
        yield from _comment(value.help, indent)
        yield from _entry(last, value.default, indent)


def _comment(text: str, indent: str) -> Iterator[str]:
    if not text:
        return
    line = f"{indent}# --"
    for word in text.split():
        if len(line) + len(word) > 118:
            yield line
            line = f"{indent}#"
        line = f"{line} {word}"
    yield line


def _entry(name: str, default: Any, indent: str) -> Iterator[str]:
    if isinstance(default, list) and default:
        yield f"{indent}{name}:"
        yield from (f"{indent}- {flow(each)}" for each in default)
    else:
        yield f"{indent}{name}: {flow(default)}"


def flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    if isinstance(value, str):
        return f'"{value}"' if value in ("", "1") else value
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")


def schema() -> Json:
    """Return values.schema.json. Where Helm itself adds keys, as `global`, they are allowed."""
    top: Json = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the chart haulout",
        **_group(""),
    }
    for value in values():
        place = top
        *groups, last = value.path.split(".")
        path = ""
        for group in groups:
            path = f"{path}.{group}" if path else group
            # Templates look into groups, so none may be null.
            if group not in place.setdefault("required", []):
                place["required"].append(group)
            place = place["properties"].setdefault(group, _group(GROUPS.get(path, "")))
        place["properties"][last] = {"description": value.help, **value.schema}
        if isinstance(value.default, bool | int | str) and value.default != "":
            place.setdefault("required", []).append(last)
    top["properties"]["global"] = {
        "description": "Values that Helm shares with charts within charts.",
        "type": "object",
    }
    return top


def _group(help_text: str) -> Json:
    described = {"description": help_text} if help_text else {}
    return {**described, "type": "object", "properties": {}, "additionalProperties": False}
