"""JSON schemas of what values hand to Kubernetes: names, quantities, and the parts of pods and policies.

Helm refuses what the API server would refuse, before a release is half installed.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
TRUTH: Json = {"type": "boolean"}
NUMBER: Json = {"type": "integer"}
MAP: Json = {"type": "object"}
# Annotations, labels and selectors: Kubernetes takes texts alone.
LABELS: Json = {"type": "object", "additionalProperties": TEXT}


def text(pattern: str) -> Json:
    """Return the schema of a text that a regular expression matches as a whole."""
    return {"type": "string", "pattern": f"^({pattern})$"}


def array(items: Json) -> Json:
    return {"type": "array", "items": items}


def closed(*required: str, **properties: Json) -> Json:
    """Return the schema of a map with these keys alone."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def with_keys(*required: str, **properties: Json) -> Json:
    """Return the schema of a map that needs some keys, and whose others Kubernetes judges."""
    return {"type": "object", "properties": properties, "required": list(required)}


LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
SUBDOMAIN = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
# Of namespaces and of objects. `MAYBE`: or empty.
NAMESPACE, NAME, MAYBE_NAME = text(LABEL), text(SUBDOMAIN), text(f"({SUBDOMAIN})?")
# The beginning of the names of Services, which is a letter.
BEGINNING = text("([a-z]([-a-z0-9]*[a-z0-9])?)?")
REPOSITORY = text("[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
TAG = text("([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?")
DIGEST = text("(sha256:[0-9a-f]{64})?")
BASE64 = text("([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
# As Prometheus writes durations.
SCRAPE_INTERVAL = text("([0-9]+(ms|[smhdwy]))+")
PERCENT = text("(100|[1-9]?[0-9])%")
COUNT: Json = {"type": "integer", "minimum": 0}
PORT: Json = {"type": "integer", "minimum": 1, "maximum": 65535}
NUMBER_OR_PERCENT: Json = {"oneOf": [{"type": "null"}, COUNT, PERCENT]}
# A number, or a text as 500m, 1.5 or 256Mi.
QUANTITY: Json = {
    "type": ["string", "number"],
    "pattern": r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[mnukMGTPE]|[eE][+-]?[0-9]+)?$",
    "minimum": 0,
}
QUANTITIES: Json = {"type": "object", "additionalProperties": QUANTITY}
RESOURCES = closed(requests=QUANTITIES, limits=QUANTITIES, claims=array(with_keys("name", name=NAME)))
LIMITS: Json = {**closed(default=QUANTITIES, defaultRequest=QUANTITIES), "type": ["object", "null"]}
PULL_SECRETS = array(closed("name", name=NAME))

TOLERATIONS = array(
    closed(
        key=TEXT,
        operator={"enum": ["Exists", "Equal"]},
        value=TEXT,
        effect={"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
        tolerationSeconds=NUMBER,
    )
)
AFFINITY: Json = {**closed(nodeAffinity=MAP, podAffinity=MAP, podAntiAffinity=MAP), "type": ["object", "null"]}
SPREAD: Json = {
    "type": ["array", "null"],
    "items": with_keys(
        "maxSkew",
        "topologyKey",
        "whenUnsatisfiable",
        maxSkew={"type": "integer", "minimum": 1},
        topologyKey=TEXT,
        whenUnsatisfiable={"enum": ["DoNotSchedule", "ScheduleAnyway"]},
    ),
}
_SECURITY: Json = {
    **dict.fromkeys(("appArmorProfile", "seLinuxOptions", "seccompProfile", "windowsOptions"), MAP),
    **dict.fromkeys(("runAsGroup", "runAsUser"), COUNT),
    "runAsNonRoot": TRUTH,
}
POD_SECURITY = closed(
    **_SECURITY,
    fsGroup=COUNT,
    fsGroupChangePolicy={"enum": ["Always", "OnRootMismatch"]},
    seLinuxChangePolicy={"enum": ["MountOption", "Recursive"]},
    supplementalGroups=array(COUNT),
    supplementalGroupsPolicy={"enum": ["Merge", "Strict"]},
    sysctls=array(closed("name", "value", name=TEXT, value=TEXT)),
)
CONTAINER_SECURITY = closed(
    **_SECURITY,
    allowPrivilegeEscalation=TRUTH,
    capabilities=closed(add=array(TEXT), drop=array(TEXT)),
    privileged=TRUTH,
    procMount={"enum": ["Default", "Unmasked"]},
    readOnlyRootFilesystem=TRUTH,
)
VARIABLES = array(closed("name", name=text("[^=]+"), value=TEXT, valueFrom=MAP))
VARIABLE_SOURCES = array(
    closed(
        prefix=TEXT,
        configMapRef=closed("name", name=NAME, optional=TRUTH),
        secretRef=closed("name", name=NAME, optional=TRUTH),
    )
)
VOLUMES = array(with_keys("name", name=NAMESPACE))
MOUNTS = array(with_keys("name", "mountPath", name=NAMESPACE, mountPath=text("[^:]+")))
CONTAINERS = array(with_keys("name", "image", name=NAMESPACE, image=text(".+")))
PEERS = array(
    closed(
        ipBlock=closed("cidr", cidr=text("[0-9a-fA-F.:]+/[0-9]+"), **{"except": array(TEXT)}),
        namespaceSelector=MAP,
        podSelector=MAP,
    )
)
