"""Rules of Services: they get addresses and ports as on a real cluster, but no traffic is routed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network

from haulout.embedded.interfaces import Json
from haulout.embedded.rules import metadata
from haulout.embedded.rules.refusals import Problem, duplicate, missing, unsupported_value, wrong

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_OUTSIDE = frozenset({"LoadBalancer", "NodePort"})
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_AFFINITIES = ("ClientIP", "None")
_ADDRESSES = IPv4Network("10.96.0.0/12")
_NODE_PORTS = range(30000, 32768)
_INSIDE = frozenset({"ClusterIP", "LoadBalancer", "NodePort"})
# Fields that only some types of Services have.
_OF_TYPES = {
    "allocateLoadBalancerNodePorts": frozenset({"LoadBalancer"}),
    "clusterIP": _INSIDE,
    "clusterIPs": _INSIDE,
    "externalTrafficPolicy": _OUTSIDE,
    "internalTrafficPolicy": _INSIDE,
    "ipFamilies": _INSIDE,
    "ipFamilyPolicy": _INSIDE,
}
_RANGE = "must be between 1 and 65535, inclusive"
HEADLESS = "None"


def default(service: Json, old: Json | None) -> None:
    spec = {"sessionAffinity": "None", "type": "ClusterIP", **service["spec"]}
    if spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
    if "ports" in spec:
        spec["ports"] = [_port(port) for port in spec["ports"]]
    if spec["type"] in _OUTSIDE:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        _default_families(spec)
    if old is not None:
        _follow(spec, old["spec"])
    service["spec"] = spec


def _port(port: Json) -> Json:
    made = {**port}
    made.setdefault("protocol", "TCP")
    if made.get("targetPort") in (None, 0, ""):
        made["targetPort"] = made["port"]
    return made


def _default_families(spec: Json) -> None:
    if spec.get("clusterIP") == HEADLESS and not spec.get("selector"):
        # The endpoints of such a Service are written by users, so that they may be of both families.
        spec.setdefault("ipFamilyPolicy", "RequireDualStack")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"])
    else:
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4"])


def _follow(spec: Json, was: Json) -> None:
    """Keep the allocated values that an update leaves out, and drop those that its new type does not have."""
    for member, types in _OF_TYPES.items():
        if spec["type"] not in types and spec.get(member) == was.get(member):
            spec.pop(member, None)
    if {spec["type"], was["type"]} <= _INSIDE:
        if (
            spec.get("clusterIP")
            and spec["clusterIP"] != was["clusterIP"]
            and spec.get("clusterIPs") == was["clusterIPs"]
        ):
            spec["clusterIPs"] = [spec["clusterIP"]]
        for member in ("clusterIP", "clusterIPs"):
            spec[member] = spec.get(member) or was[member]
    known = {_place(port): port["nodePort"] for port in was.get("ports", ()) if "nodePort" in port}
    for port in spec.get("ports", ()):
        if spec["type"] in _OUTSIDE and not port.get("nodePort") and _place(port) in known:
            port["nodePort"] = known[_place(port)]
        elif spec["type"] not in _OUTSIDE and port.get("nodePort") in known.values():
            del port["nodePort"]


def _place(port: Json) -> tuple[str, int]:
    return port["protocol"], port["port"]


def allocate(service: Json, others: Iterable[Json]) -> None:
    """Allocate an address and node ports that no other Service has. The first address is the API server's own."""
    spec = service["spec"]
    if spec["type"] == "ExternalName":
        return
    taken = [other["spec"] for other in others if other["metadata"]["uid"] != service["metadata"].get("uid")]
    if not spec.get("clusterIP"):
        addresses = {each.get("clusterIP") for each in taken}
        free = (str(_ADDRESSES[number]) for number in range(2, _ADDRESSES.num_addresses - 1))
        spec["clusterIP"] = next(address for address in free if address not in addresses)
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    if spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts"):
        used = {port.get("nodePort") for each in (*taken, spec) for port in each.get("ports", ())}
        free_ports = (number for number in _NODE_PORTS if number not in used)
        for port in spec.get("ports", ()):
            if not port.get("nodePort"):
                port["nodePort"] = next(free_ports)


def check(service: Json) -> list[Problem]:
    spec = service["spec"]
    problems = []
    if not spec.get("ports") and spec["type"] != "ExternalName" and spec.get("clusterIP") != HEADLESS:
        problems.append(missing("spec.ports"))
    problems += _check_ports(spec.get("ports", ()))
    problems += metadata.check_labels(spec.get("selector", {}), "spec.selector")
    if spec["sessionAffinity"] not in _AFFINITIES:
        problems.append(unsupported_value("spec.sessionAffinity", spec["sessionAffinity"], _AFFINITIES))
    if spec["type"] not in _TYPES:
        problems.append(unsupported_value("spec.type", spec["type"], _TYPES))
    if spec["type"] == "ExternalName":
        name = spec.get("externalName", "")
        texts = metadata.subdomain(name.removesuffix("."))
        problems += (
            [wrong("spec.externalName", name, text) for text in texts] if name else [missing("spec.externalName")]
        )
    return problems


def _check_ports(ports: Iterable[Json]) -> Iterator[Problem]:
    several, seen = len(list(ports)) > 1, set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if several and not name:
            yield missing(f"{path}.name")
        if name:
            yield from (wrong(f"{path}.name", name, text) for text in metadata.label(name))
            if name in seen:
                yield duplicate(f"{path}.name", name)
            seen.add(name)
        if not 1 <= port["port"] <= 65535:
            yield wrong(f"{path}.port", port["port"], _RANGE)
        if port["protocol"] not in _PROTOCOLS:
            yield unsupported_value(f"{path}.protocol", port["protocol"], _PROTOCOLS)
        if isinstance(port["targetPort"], int) and not 1 <= port["targetPort"] <= 65535:
            yield wrong(f"{path}.targetPort", port["targetPort"], _RANGE)


def changed_fixed_fields(service: Json, old: Json) -> list[Problem]:
    spec, was = service["spec"], old["spec"]
    if not {spec["type"], was["type"]} <= _INSIDE or spec["clusterIP"] == was["clusterIP"]:
        return []
    return [wrong("spec.clusterIPs[0]", spec["clusterIPs"], "may not change once set")]
