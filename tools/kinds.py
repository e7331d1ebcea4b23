"""Writes src/haulout/embedded/rules/kinds.json: the fields of the built-in kinds, read off the Go types that `make tools` builds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

GO_DIR = Path(__file__).parent / "go" / "kube"
OUT = Path(__file__).parent.parent / "src" / "haulout" / "embedded" / "rules" / "kinds.json"

CORE, META = "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/apis/meta/v1"
# The prefix of a Go package's types in the file.
PACKAGES = {
    CORE: "",
    META: "meta.",
    "k8s.io/api/apps/v1": "apps.",
    "k8s.io/api/batch/v1": "batch.",
    "k8s.io/api/policy/v1": "policy.",
    "k8s.io/api/coordination/v1": "coordination.",
    "k8s.io/api/events/v1": "events.",
    "k8s.io/api/rbac/v1": "rbac.",
    "k8s.io/api/authorization/v1": "authorization.",
    "k8s.io/api/autoscaling/v1": "autoscaling.",
    "k8s.io/api/admissionregistration/v1": "admissionregistration.",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": "apiextensions.",
}
ROOTS = [
    "Node",
    "Pod",
    "Namespace",
    "Event",
    "ConfigMap",
    "Secret",
    "Service",
    "ServiceAccount",
    "Binding",
    "apps.Deployment",
    "apps.ReplicaSet",
    "apps.StatefulSet",
    "apps.DaemonSet",
    "apps.ControllerRevision",
    "batch.Job",
    "policy.PodDisruptionBudget",
    "policy.Eviction",
    "coordination.Lease",
    "events.Event",
    "rbac.ClusterRole",
    "rbac.ClusterRoleBinding",
    "rbac.Role",
    "rbac.RoleBinding",
    "authorization.SubjectAccessReview",
    "authorization.SelfSubjectAccessReview",
    "autoscaling.Scale",
    "admissionregistration.ValidatingWebhookConfiguration",
    "admissionregistration.MutatingWebhookConfiguration",
    "admissionregistration.ValidatingAdmissionPolicy",
    "admissionregistration.ValidatingAdmissionPolicyBinding",
    "apiextensions.CustomResourceDefinition",
    "meta.DeleteOptions",
]
# Types with a JSON form of their own.
LEAVES = {
    "meta.Time": "time",
    "meta.MicroTime": "microtime",
    "meta.Duration": "string",
    "meta.FieldsV1": "any",
    "apiextensions.JSON": "any",
    "apiextensions.JSONSchemaPropsOrArray": "any",
    "apiextensions.JSONSchemaPropsOrBool": "any",
    "apiextensions.JSONSchemaPropsOrStringArray": "any",
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intorstring",
    "runtime.RawExtension": "any",
    "types.UID": "string:types.UID",
    "types.NodeName": "string:types.NodeName",
}
SCALARS = {"string", "bool", "int32", "int64", "int", "float64", "byte"}

_STRUCT = re.compile(r"^type (\w+) struct ?\{(?:\n(.*?)^)?\}", re.MULTILINE | re.DOTALL)
_ALIAS = re.compile(r"^type (\w+) ([\w.\[\]*]+)$", re.MULTILINE)
_FIELD = re.compile(r"^\t(?:\w+ +)?([*\[\]\w.]+) +`(.*)`", re.MULTILINE)
_IMPORT = re.compile(r'^\t(?:(\w+) )?"([^"]+)"', re.MULTILINE)


class Source:
    """The types of one Go package, as text."""

    def __init__(self, root: Path, prefix: str) -> None:
        text = "\n".join(path.read_text() for path in sorted(root.glob("*.go")) if _is_types(path))
        self.prefix = prefix
        self.structs = dict(_STRUCT.findall(text))
        self.aliases = dict(_ALIAS.findall(text))
        self.imports = {alias or path.rpartition("/")[2]: path for alias, path in _IMPORT.findall(text)}


def _is_types(path: Path) -> bool:
    return path.name.startswith("types") or (path.name in {"time.go", "micro_time.go", "duration.go"})


class Reader:
    """A reader of Go structs and of the structs within them. `found`: the JSON names and types of fields, by struct."""

    def __init__(self, sources: dict[str, Source]) -> None:
        self._sources = sources
        self.found: dict[str, dict[str, str]] = {}

    def read(self, name: str) -> None:
        if name in self.found:
            return
        package, _, bare = name.rpartition(".")
        source = self._sources[f"{package}." if package else ""]
        fields = self.found[name] = {}
        self._fields(source, bare, fields)

    def _fields(self, source: Source, bare: str, fields: dict[str, str]) -> None:
        for go_type, tags in _FIELD.findall(source.structs[bare]):
            tag = re.search(r'json:"([^"]*)"', tags)
            if tag is None or tag[1] == "-":
                continue
            json_name, *flags = tag[1].split(",")
            if not json_name:
                inlined = self._name(source, go_type.lstrip("*"))
                package, _, inner = inlined.rpartition(".")
                found: dict[str, str] = {}
                self._fields(self._sources[f"{package}." if package else ""], inner, found)
                # These fields are inlined in JSON, but are messages of their own in protobuf.
                if number := _number(tags):
                    self.read(inlined)
                    fields[f"+{number[2:]}"] = inlined
                    found = {name: text.partition(" #")[0] for name, text in found.items() if not name.startswith("+")}
                fields.update(found)
                continue
            fields[json_name] = self._type(source, go_type) + _omission(flags) + _merging(tags) + _number(tags)

    def _name(self, source: Source, go_type: str) -> str:
        package, dot, bare = go_type.rpartition(".")
        if not dot:
            return source.prefix + go_type
        prefix = PACKAGES.get(source.imports.get(package, ""))
        return f"{package}.{bare}" if prefix is None else prefix + bare

    def _type(self, source: Source, go_type: str) -> str:
        if go_type.startswith("*"):
            return "*" + self._type(source, go_type[1:]).removeprefix("*")
        if go_type == "[]byte":
            return "bytes"
        if go_type.startswith("[]"):
            return "[]" + self._type(source, go_type[2:])
        if found := re.fullmatch(r"map\[([\w.]+)\](.*)", go_type):
            return "{}" + self._type(source, found[2])
        if go_type in SCALARS:
            return go_type
        name = self._name(source, go_type)
        if name in LEAVES:
            return LEAVES[name]
        package, _, bare = name.rpartition(".")
        origin = self._sources[f"{package}." if package else ""]
        if bare in origin.structs:
            self.read(name)
            return name
        if bare not in origin.aliases:
            raise SystemExit(f"{name}: neither struct nor alias")
        base = self._type(origin, origin.aliases[bare])
        return f"{base}:v1.{bare}" if base in SCALARS else base


def _omission(flags: list[str]) -> str:
    if "omitzero" in flags:
        return " zero"
    return " empty" if "omitempty" in flags else ""


def _merging(tags: str) -> str:
    strategy = re.search(r'patchStrategy:"([^"]*)"', tags)
    if strategy is None:
        return ""
    key = re.search(r'patchMergeKey:"([^"]*)"', tags)
    retain = " retain" if "retainKeys" in strategy[1] else ""
    return (f" merge={key[1] if key else ''}" if "merge" in strategy[1] else "") + retain


def _number(tags: str) -> str:
    found = re.search(r'protobuf:"\w+,(\d+),', tags)
    return f" #{found[1]}" if found else ""


def main() -> None:
    sources = {}
    for package, prefix in PACKAGES.items():
        where = subprocess.run(
            ["go", "list", "-f", "{{.Dir}}", package], cwd=GO_DIR, check=True, capture_output=True, text=True
        ).stdout.strip()
        sources[prefix] = Source(Path(where), prefix)
    reader = Reader(sources)
    for root in ROOTS:
        reader.read(root)
    lines = [
        f"{json.dumps(name)}:{json.dumps(reader.found[name], separators=(',', ':'))}" for name in sorted(reader.found)
    ]
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    sys.stdout.write(f"{OUT}: {len(reader.found)} types\n")


if __name__ == "__main__":
    main()
