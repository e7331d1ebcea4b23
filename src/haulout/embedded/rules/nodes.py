"""Defaults and checks of Nodes, and the not-ready taint of a new one."""

from __future__ import annotations

import ipaddress

from haulout.embedded.interfaces import Json
from haulout.embedded.rules.podspec import check_taints
from haulout.embedded.rules.refusals import Problem, duplicate, forbidden_field, wrong

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def default(node: Json, old: Json | None) -> None:
    status = node["status"]
    if "capacity" in status and "allocatable" not in status:
        node["status"] = {**status, "allocatable": dict(status["capacity"])}
    spec = node["spec"]
    if "podCIDR" in spec and spec.get("podCIDRs", [])[:1] != [spec["podCIDR"]]:
        spec["podCIDRs"] = [spec["podCIDR"]]


def taint_new(node: Json) -> None:
    """Add the taint of the admission plugin TaintNodesByCondition."""
    taints = node["spec"].get("taints", [])
    if not any(taint["key"] == NOT_READY["key"] and taint["effect"] == "NoSchedule" for taint in taints):
        node["spec"]["taints"] = [*taints, dict(NOT_READY)]


def check(node: Json) -> list[Problem]:
    spec = node["spec"]
    # The path is the real server's.
    problems = check_taints(spec.get("taints", ()), "metadata.taints")
    for index, cidr in enumerate(spec.get("podCIDRs", ())):
        try:
            ipaddress.ip_network(cidr, strict=False)
        except ValueError:
            text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            problems.append(wrong(f"spec.podCIDRs[{index}]", cidr, text))
    return problems


def recheck(node: Json, old: Json) -> list[Problem]:
    spec, before = node["spec"], old["spec"]
    problems: list[Problem] = []
    if node["status"] is not old["status"]:
        addresses = node["status"].get("addresses", [])
        for index, address in enumerate(addresses):
            if address in addresses[:index]:
                printed = {name.capitalize(): value for name, value in address.items()}
                problems.append(duplicate(f"status.addresses[{index}]", printed))
    if spec is before:
        return problems
    if before.get("podCIDRs") and before["podCIDRs"] != spec.get("podCIDRs"):
        text = 'node updates may not change podCIDR except from "" to valid'
        problems.append(forbidden_field("spec.podCIDRs", text))
    if before.get("providerID") and before["providerID"] != spec.get("providerID"):
        text = 'node updates may not change providerID except from "" to valid'
        problems.append(forbidden_field("spec.providerID", text))
    if spec.get("taints") and spec["taints"] is not before.get("taints"):
        problems += check_taints(spec["taints"], "metadata.taints")
    return problems
