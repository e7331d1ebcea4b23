"""The free texts of all objects that Haulout reads, where they go, and hostile texts to plant in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from haulout.base import yaml
from haulout.embedded import Json
from haulout.surfaces.registry import all_declarations

# The definitions of our kinds by the names of their files, each with the surface that brings it.
DEFINITIONS = {name: each for each in all_declarations() for name in each.crds}
# For each kind, the beginnings of the paths of its texts. Each is a cell of the table in docs/security.md, which says
# where the text goes and what makes it harmless there. A text of a new field is in none of them.
LISTED: dict[str, tuple[str, ...]] = {
    "NotifyMaintenance": (
        *("spec.nodeObject", "spec.maintenanceID", "spec.maintenanceType", "spec.metadataConfigmap", "spec.owner"),
        "spec.additionalMessageChannels.amazonSNSTopicARN",
    ),
    "PlatformInfo": ("spec.versions",),
    "NodeMaintenance": ("spec.nodeName", "spec.reason", "spec.drain.podSelector"),
    "Skyhook": (
        *("spec.nodeSelectors", "spec.podNonInterruptLabels", "spec.deploymentPolicy", "spec.packages"),
        *("spec.additionalTolerations", "spec.drainConfig"),
    ),
    "NodeWright": (
        *("spec.nodeSelectors", "spec.podNonInterruptLabels", "spec.deploymentPolicy", "spec.packages"),
        *("spec.additionalTolerations", "spec.drainConfig"),
    ),
    "NodeMaintenanceSet": ("spec.nodes", "spec.reason", "spec.startAt", "spec.ttl", "spec.setAsideAfter"),
    "DeploymentPolicy": ("spec.compartments", "spec.gate.soak", "spec.gate.prometheus"),
    "NodeDisruptionBudget": ("spec.selector", "spec.maxUnavailable", "spec.topologyKey", "spec.windows", "spec.paused"),
    "MaintenanceRecord": (
        *("spec.node", "spec.surface", "spec.owner", "spec.reason", "spec.requestedBy", "spec.begunAt"),
    ),
}

# A command that shows that it ran: it makes this file.
CANARY = "CANARY"
# Pieces of hostile texts: templates, shell, URLs, formats, headers, JSON and YAML.
PIECES = (
    *("{{ lookup('ansible.builtin.pipe', 'touch CANARY') }}", "{% set x = 1 %}", "{# #}", "{{", "}}", "!unsafe x"),
    *(
        "$(touch CANARY)",
        "`touch CANARY`",
        "; touch CANARY #",
        "$(NODE_NAME)",
        "$$(NODE_NAME)",
        "$NODE_NAME",
        "'\"\\",
        "|",
    ),
    *("../../secrets/x", "?watch=1&", "#x", "%2e%2e%2f", "@host:22/", "//host", "{host}", "%s%n", "{0.__class__}"),
    *("\r\nBcc: x@example.com\r\n\r\n", "\n- x: &a [*a]\n", '"}, {"ansible_connection": "ssh', "-oProxyCommand=x"),
    *(" ansible_connection=ssh", "key=value", ",", "a=b,c!=d", "é\u2028\u202e", "\t"),
)
# Pieces of addresses, of which `OWN` is the port of a server that may be asked, and `PORT` that of another one.
URL_PIECES = (
    *("http://127.0.0.1:PORT", "//127.0.0.1:PORT", "127.0.0.1:OWN", "127.0.0.1:PORT", "localhost:PORT", "[::1]:PORT"),
    *("http://127.0.0.1:OWN", "//127.0.0.1:OWN@127.0.0.1:PORT/", "http://127.0.0.1:OWN\\@127.0.0.1:PORT/", "http:"),
    *("http:/", "http:///", "/\\127.0.0.1:PORT/", "\\\\127.0.0.1:PORT/", "@", ":", "#", "?", "/", "//", "\\", "%40"),
    *(
        "%2f",
        "0177.0.0.1:PORT",
        "2130706433:PORT",
        "[::ffff:127.0.0.1]:PORT",
        "127.1:PORT",
        "\uff11\uff12\uff17.0.0.1:PORT",
    ),
)


def definition(plural: str) -> Json:
    found: Json = yaml.load(DEFINITIONS[plural].definition(plural))
    return found


def texts(plural: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the path of each text in the spec of a kind that people write."""
    spec = definition(plural)["spec"]
    for version in spec["versions"]:
        wanted = version["schema"]["openAPIV3Schema"]["properties"].get("spec", {})
        yield from ((spec["names"]["kind"], path) for path in _texts(wanted, "spec"))


def _texts(schema: Json, path: str) -> Iterator[str]:
    is_any = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if is_any or (schema.get("type") == "string" and "enum" not in schema):
        yield path
    for name, inner in (schema.get("properties") or {}).items():
        yield from _texts(inner, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from _texts(schema[key], f"{path}{mark}")


_REFERENCE = re.compile(r"\$(\$|\(([-._a-zA-Z0-9]+)\))")


def expanded(text: str, environment: dict[str, str]) -> str:
    """Return a text of a container as the kubelet passes it on: `$(NAME)` replaced once, `$$` as one dollar sign."""
    return _REFERENCE.sub(lambda found: "$" if found[1] == "$" else environment.get(found[2], found[0]), text)


def environment_of(container: Json) -> dict[str, str]:
    """Return the environment of a container as the kubelet sets it: each value may refer to those before it."""
    environment: dict[str, str] = {}
    for each in container["env"]:
        environment[each["name"]] = expanded(each.get("value", ""), environment)
    return environment
