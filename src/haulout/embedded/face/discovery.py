"""Discovery: the groups, versions and kinds that the server serves, in the forms that clients ask for."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from haulout.embedded.interfaces import Json
from haulout.embedded.store.builtin_kinds import BUILT_IN
from haulout.embedded.store.kinds import Catalog, Kind
from haulout.embedded.store.versions import rank

VERSION: Json = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.3+haulout",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "embedded",
}

# Kinds that are created and answered, but never stored: group, plural, kind, whether namespaced.
TRANSIENT: tuple[tuple[str, str, str, bool], ...] = (
    ("", "bindings", "Binding", True),
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", False),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", True),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", False),
)

# Groups that are served without any definition.
BUILT_IN_GROUPS = frozenset(
    {*(kind.group for kind in BUILT_IN), *(group for group, *_ in TRANSIENT), "apiextensions.k8s.io"}
)

_STATUS_VERBS = ["get", "patch", "update"]


def versions(catalog: Catalog) -> dict[str, list[str]]:
    """Return the versions of each group, the preferred one first."""
    found: dict[str, list[str]] = {group: ["v1"] for group, _, _, _ in TRANSIENT}
    for kind in catalog:
        known = found.setdefault(kind.group, [])
        if kind.version not in known:
            known.append(kind.version)
    return {group: sorted(known, key=rank) for group, known in found.items()}


def group_list(catalog: Catalog) -> Json:
    groups = [group(catalog, name) for name in versions(catalog) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(catalog: Catalog, name: str) -> Json | None:
    known = versions(catalog).get(name)
    if known is None:
        return None
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in known]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def core_versions(address: str) -> Json:
    reachable = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": reachable}


def resource_list(catalog: Catalog, group_name: str, version: str) -> Json | None:
    if version not in versions(catalog).get(group_name, ()):
        return None
    resources = []
    for kind in _of(catalog, group_name, version):
        entry: Json = {
            "name": kind.plural,
            "singularName": kind.one,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(kind.verbs),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        resources.append(entry)
        for name, sub_group, sub_version, sub_kind, verbs in _subresources(kind):
            sub: Json = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
            if sub_group:
                sub |= {"group": sub_group, "version": sub_version}
            resources.append(sub | {"kind": sub_kind, "verbs": verbs})
    resources += _transient(group_name)
    resources.sort(key=lambda each: str(each["name"]).partition("/")[0])
    name = f"{group_name}/{version}" if group_name else version
    result: Json = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}
    return result


def _transient(group_name: str) -> list[Json]:
    return [
        {"name": plural, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind, "verbs": ["create"]}
        for found, plural, kind, namespaced in TRANSIENT
        if found == group_name
    ]


def _of(catalog: Catalog, group_name: str, version: str) -> list[Kind]:
    return [kind for kind in catalog if kind.group == group_name and kind.version == version]


def _subresources(kind: Kind) -> Iterable[tuple[str, str, str, str, list[str]]]:
    if kind.plural == "namespaces" and not kind.group:
        yield ("finalize", "", "", "Namespace", ["update"])
    if kind.plural == "pods" and not kind.group:
        yield ("binding", "", "", "Binding", ["create"])
        yield ("eviction", "policy", "v1", "Eviction", ["create"])
    if kind.has_status and kind.custom:
        yield ("status", "", "", kind.kind, _STATUS_VERBS)
    if kind.has_scale:
        yield ("scale", "autoscaling", "v1", "Scale", _STATUS_VERBS)
    if kind.has_status and not kind.custom:
        yield ("status", "", "", kind.kind, _STATUS_VERBS)


def aggregated_discovery(catalog: Catalog, *, core: bool) -> Json:
    """Return all groups with their kinds in one document: apidiscovery.k8s.io/v2."""
    items = []
    for name, known in versions(catalog).items():
        if (name == "") is core:
            listed = [_aggregated_version(catalog, name, version) for version in known]
            items.append({"metadata": {"name": name} if name else {}, "versions": listed})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_version(catalog: Catalog, group_name: str, version: str) -> Json:
    flat = (resource_list(catalog, group_name, version) or {"resources": []})["resources"]
    resources = []
    for plural, entries in groupby(flat, key=lambda each: str(each["name"]).partition("/")[0]):
        main, *subs = list(entries)
        # The real server leaves defaults out, except for custom kinds.
        own = ("", "") if group_name in BUILT_IN_GROUPS else (group_name, version)
        entry: Json = {
            "resource": plural,
            "responseKind": {"group": own[0], "version": own[1], "kind": main["kind"]},
            "scope": "Namespaced" if main["namespaced"] else "Cluster",
            "singularResource": main["singularName"],
            "verbs": main["verbs"],
        }
        for member in ("shortNames", "categories"):
            if member in main:
                entry[member] = main[member]
        if subs:
            entry["subresources"] = [
                {
                    "subresource": str(sub["name"]).partition("/")[2],
                    "responseKind": {
                        "group": sub.get("group", own[0]),
                        "version": sub.get("version", own[1]),
                        "kind": sub["kind"],
                    },
                    "verbs": sub["verbs"],
                }
                for sub in subs
            ]
        resources.append(entry)
    return {"version": version, "resources": resources, "freshness": "Current"}
