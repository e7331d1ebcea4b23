"""Sends objects to the real API server as a dry run: what it would refuse, without keeping any of them."""

from __future__ import annotations

import json

from tests.rig.api import Api, ApiError, Json
from tests.rig.helm import key_of
from tests.rig.wait import eventually


class Judge:
    """Sends objects to the API server as a dry run, each content once. Unknown and duplicate fields are refused, too."""

    def __init__(self, api: Api, prefix: str) -> None:
        self.prefix = prefix
        self._api = api
        self._seen: set[str] = set()
        self._plurals: dict[tuple[str, str], str] = {}

    def refusals(self, objects: list[Json]) -> list[str]:
        found = []
        for each in objects:
            text = json.dumps(each, sort_keys=True)
            if text not in self._seen:
                self._seen.add(text)
                try:
                    self._send(each)
                except ApiError as error:
                    found.append(f"{key_of(each)}: {error}")
        return found

    def _send(self, found: Json) -> None:
        resource = f"{found['apiVersion']}/{self._plural(found)}" if "/" in found["apiVersion"] else self._plural(found)
        query = {"dryRun": "All", "fieldManager": "helm", "fieldValidation": "Strict", "force": "true"}
        name, namespace = found["metadata"]["name"], found["metadata"].get("namespace")
        self._api.patch(resource, name, found, namespace, kind="apply", **query)

    def _plural(self, found: Json) -> str:
        version, kind = found["apiVersion"], found["kind"]
        if (version, kind) not in self._plurals:
            path = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for each in self._api.request("GET", path)["resources"]:
                self._plurals.setdefault((version, each["kind"]), each["name"].partition("/")[0])
        return self._plurals[version, kind]


def await_kinds(api: Api, version: str, kinds: set[str]) -> None:
    def served() -> bool:
        return kinds <= {each["kind"] for each in api.request("GET", f"/apis/{version}")["resources"]}

    eventually(served, f"{version} is served", refused=(ApiError,))


def definition(version: str, kind: str, plural: str) -> Json:
    group, _, name = version.partition("/")
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    served = [{"name": name, "served": True, "storage": True, "schema": schema}]
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": served},
    }
