"""CustomResourceDefinitions and the custom kinds that they define."""

from __future__ import annotations

from typing import Any

from haulout.embedded.interfaces import Json, Resource
from haulout.embedded.resources import CUSTOM_RESOURCE_DEFINITIONS
from haulout.embedded.rules import metadata, schemas
from haulout.embedded.rules.refusals import Problem, aggregate, missing, unsupported_value, wrong
from haulout.embedded.store.custom_kinds import custom_kind
from haulout.embedded.store.kinds import Catalog, Kind, decoder, path_selector, status_decoder
from haulout.embedded.store.registry import Deletion, Registry

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def _default(crd: Json, old: Json | None) -> None:
    names = crd["spec"]["names"]
    if kind := names.get("kind", ""):
        crd["spec"]["names"] = {"singular": kind.lower(), "listKind": f"{kind}List", **names}
    crd["spec"].setdefault("conversion", {"strategy": "None"})


def _prepare(crd: Json) -> None:
    stored = [version["name"] for version in crd["spec"].get("versions") or () if version["storage"]][:1]
    crd["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}


def _reprepare(crd: Json, old: Json) -> None:
    """Remember the versions in which objects may have been stored."""
    stored: list[str] = old["status"].get("storedVersions") or []
    now = [each["name"] for each in crd["spec"].get("versions") or () if each["storage"] and each["name"] not in stored]
    if now:
        crd["status"] = {**old["status"], "storedVersions": [*stored, *now[:1]]}


def _check_new(crd: Json) -> list[Problem]:
    name, spec = crd["metadata"]["name"], crd["spec"]
    if name == f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
        return []
    return [wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _check(crd: Json) -> list[Problem]:
    spec = crd["spec"]
    group = spec.get("group", "")
    problems = []
    if not group:
        problems.append(missing("spec.group"))
    elif len(group.split(".")) < 2:
        problems.append(wrong("spec.group", group, "should be a domain with at least one dot"))
    if not spec["scope"]:
        problems.append(missing("spec.scope"))
    elif spec["scope"] not in {"Cluster", "Namespaced"}:
        problems.append(unsupported_value("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    versions = spec.get("versions") or []
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        problems += [wrong(f"{path}.name", version["name"], text) for text in metadata.label(version["name"])]
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            problems.append(missing(f"{path}.schema.openAPIV3Schema"))
        else:
            problems += schemas.structural_problems(schema, _schema_path(versions, index))
    storages = [version["name"] for version in versions if version["storage"]]
    if len(storages) != 1:
        text = "must have exactly one version marked as storage version"
        problems.append(wrong("spec.versions", list(map(_in_go, versions)) or None, text))
    needed = ("plural", "singular", "kind", "listKind")
    problems += [missing(f"spec.names.{member}") for member in needed if not spec["names"].get(member)]
    stored = crd["status"].get("storedVersions")
    if not stored:
        problems.append(wrong("status.storedVersions", None, "must have at least one stored version"))
    elif storages and storages[-1] not in stored:
        problems.append(wrong("status.storedVersions", stored, f"must have the storage version {storages[-1]}"))
    return problems


def _in_go(version: Json) -> Json:
    """Return a version of a definition as the server prints its internal type, which has schemas in another place."""
    required = ("name", "served", "storage")
    return {name[0].upper() + name[1:]: version[name] for name in required} | {
        "Deprecated": version.get("deprecated", False),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None,
        "Subresources": version.get("subresources"),
        "AdditionalPrinterColumns": version.get("additionalPrinterColumns"),
        "SelectableFields": version.get("selectableFields"),
    }


def _schema_path(versions: list[Json], index: int) -> str:
    """Return the path of a schema in messages. A single schema is reported where v1beta1 had it."""
    return "spec.validation.openAPIV3Schema" if len(versions) == 1 else f"spec.versions[{index}].schema.openAPIV3Schema"


def _recheck(crd: Json, old: Json) -> list[Problem]:
    problems = []
    for path in (("group",), ("scope",), ("names", "plural"), ("names", "kind")):
        new, before = crd["spec"], old["spec"]
        for step in path:
            new, before = new.get(step), before.get(step)
        if new != before:
            problems.append(wrong(f"spec.{'.'.join(path)}", new, "field is immutable"))
    return problems


DEFINITION = Kind(
    group=CUSTOM_RESOURCE_DEFINITIONS.group,
    version=CUSTOM_RESOURCE_DEFINITIONS.version,
    plural=CUSTOM_RESOURCE_DEFINITIONS.plural,
    kind="CustomResourceDefinition",
    type="apiextensions.CustomResourceDefinition",
    decode=decoder("apiextensions.CustomResourceDefinition"),
    decode_status=status_decoder("apiextensions.CustomResourceDefinition"),
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    has_status=True,
    default=_default,
    prepare=_prepare,
    reprepare=_reprepare,
    check_new=_check_new,
    check=_check,
    recheck=_recheck,
    respecified=lambda crd, old: bool(crd["spec"] != old["spec"]),
    selectable={"metadata.name": path_selector("metadata", "name")},
    unconditional_update=False,
    returns_deleted=True,
)


class Definitions:
    """The CustomResourceDefinitions of the embedded cluster and the kinds that they define.

    It serves the kinds of accepted definitions, and deletes their objects with the definition.
    """

    def __init__(self, registry: Registry, catalog: Catalog, scales: dict[str, tuple[str, str, str]]) -> None:
        self._registry = registry
        self._catalog = catalog
        self._scales = scales
        self._followed: set[str] = set()
        catalog.add(DEFINITION)

    def after(self, crd: Json) -> None:
        """React to a written definition. The server calls this after each write that leaves it behind."""
        if "deletionTimestamp" not in crd["metadata"]:
            self._serve(crd)

    def delete(self, crd: Json, asked: Deletion) -> tuple[Json, bool]:
        """Delete the objects of a kind, then its definition."""
        self._registry.check_preconditions(DEFINITION, crd, asked)
        table = self._registry.storage.table(crd["metadata"]["name"])
        if asked.dry_run:
            return crd, False
        if "deletionTimestamp" not in crd["metadata"]:
            finalizers = [*crd["metadata"].get("finalizers", []), CLEANUP]
            meta = {**crd["metadata"], "deletionTimestamp": self._registry.stamp(), "finalizers": finalizers}
            status = {**crd["status"], "conditions": [*(crd["status"].get("conditions") or ()), self._terminating()]}
            marked = {**crd, "metadata": meta, "status": status}
            crd = self._registry.storage.put(self._registry.table(DEFINITION), marked, crd)
        kind = self._stored_kind(crd)
        if kind is not None:
            for obj in table.items():
                self._registry.delete(kind, obj, Deletion())
        if table.name not in self._followed:
            self._followed.add(table.name)
            table.listeners.append(lambda entry: self._finish(table.name))
        self._finish(table.name)
        return crd, False

    def _terminating(self) -> Json:
        return {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": self._registry.stamp(),
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }

    def _finish(self, name: str) -> None:
        crd = self._registry.table(DEFINITION).get("", name)
        if (
            crd is None
            or CLEANUP not in crd["metadata"].get("finalizers", ())
            or len(self._registry.storage.table(name))
        ):
            return
        finalizers = [each for each in crd["metadata"]["finalizers"] if each != CLEANUP]
        rest = {**crd, "metadata": {**crd["metadata"], "finalizers": finalizers}}
        self._registry.replace(DEFINITION, crd, rest)
        if not finalizers:
            self._withdraw(crd)
            for rival in self._registry.table(DEFINITION).items():
                # The names of the deleted definition are free now.
                if _is_rival(rival, crd) and "deletionTimestamp" not in rival["metadata"]:
                    self._serve(rival)

    def _stored_kind(self, crd: Json) -> Kind | None:
        version = next((each["name"] for each in crd["spec"]["versions"] if each["storage"]), "")
        return self._catalog.get(Resource(crd["spec"]["group"], version, crd["spec"]["names"]["plural"]))

    def _serve(self, crd: Json) -> None:
        self._withdraw(crd)
        status = self._status(crd)
        is_established = status["conditions"][-1]["status"] == "True"
        for version in crd["spec"]["versions"]:
            if version["served"] and is_established:
                self._catalog.add(custom_kind(crd["spec"], version))
            scale = (version.get("subresources") or {}).get("scale")
            if scale:
                self._scales[crd["metadata"]["name"]] = (
                    scale["specReplicasPath"],
                    scale["statusReplicasPath"],
                    scale.get("labelSelectorPath", ""),
                )
        if status != crd["status"]:
            self._registry.storage.put(self._registry.table(DEFINITION), {**crd, "status": status}, crd)

    def _withdraw(self, crd: Json) -> None:
        spec = crd["spec"]
        for kind in [k for k in self._catalog if k.group == spec["group"] and k.plural == spec["names"]["plural"]]:
            self._catalog.remove(kind.resource)

    def _status(self, crd: Json) -> Json:
        """Return the status of a definition: the names that it gets, and whether it is served."""
        accepted, refusal = self._names(crd)
        named = ("False", *refusal) if refusal else ("True", "NoConflicts", "no conflicts found")
        known = {each["type"]: each for each in crd["status"].get("conditions") or ()}
        if known.get("Established", {}).get("status") == "True" or not refusal:
            established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
        else:
            established = ("False", "NotAccepted", "not all names are accepted")
        conditions = []
        for name, wanted in (("NamesAccepted", named), ("Established", established)):
            before = known.get(name, {})
            same = before.get("status") == wanted[0]
            new = {"type": name, "status": wanted[0], "reason": wanted[1], "message": wanted[2]}
            since = before["lastTransitionTime"] if same else self._registry.stamp()
            conditions.append({**new, "lastTransitionTime": since})
        return {**crd["status"], "conditions": conditions, "acceptedNames": accepted}

    def _names(self, crd: Json) -> tuple[Json, tuple[str, str] | None]:
        """Return the names that no other definition in the group has, and the last conflict."""
        wanted, accepted, refusal = crd["spec"]["names"], {**crd["status"]["acceptedNames"]}, None
        others = [each for each in self._registry.table(DEFINITION).items() if _is_rival(each, crd)]
        taken = [each["status"]["acceptedNames"] for each in others]
        for member, rivals in _CLAIMED.items():
            used = {name for names in taken for rival in rivals for name in _listed(names.get(rival))}
            clash = [name for name in _listed(wanted.get(member)) if name in used]
            if clash:
                refusal = (
                    f"{member[0].upper()}{member[1:]}Conflict",
                    aggregate(f'"{n}" is already in use' for n in clash),
                )
            elif member in wanted:
                accepted[member] = wanted[member]
        if "categories" in wanted:
            accepted["categories"] = wanted["categories"]
        return accepted, refusal


# Each of these names must differ from these names of other definitions.
_RESOURCES, _KINDS = ("plural", "singular", "shortNames"), ("kind", "listKind")
_CLAIMED = {member: group for group in (_RESOURCES, _KINDS) for member in group}


def _is_rival(other: Json, crd: Json) -> bool:
    return bool(other["spec"]["group"] == crd["spec"]["group"] and other["metadata"]["name"] != crd["metadata"]["name"])


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value] if value else []


def warnings(crd: Json) -> list[str]:
    return [
        f"spec.versions[{index}].schema.openAPIV3Schema: x-kubernetes-validations are not evaluated by the embedded cluster"
        for index, version in enumerate(crd.get("spec", {}).get("versions") or ())
        if schemas.has_rules(version.get("schema"))
    ]
