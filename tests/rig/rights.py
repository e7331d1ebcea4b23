"""Grants the roles that `haulout rbac` prints to a user of the real API server, and finds out which rights were used."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import yaml
from click.testing import CliRunner

from haulout.cli.root import root
from haulout.manifests.account_policy import account_policy
from haulout.manifests.webhooks import certificate_secret
from tests.rig.api import Json
from tests.rig.audit import Entry
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

GROUP = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io/v1"


@dataclasses.dataclass(frozen=True)
class Right:
    """One verb on one resource that a printed rule allows: in one namespace or everywhere, for some names or all."""

    role: str
    ns: str
    group: str
    resource: str
    verb: str
    names: tuple[str, ...]

    def covers(self, entry: Entry) -> bool:
        group = entry.uri.split("/")[2] if entry.uri.startswith("/apis/") else ""
        return (
            (self.group, self.resource, self.verb) == (group, entry.what, entry.verb)
            and self.ns in ("", entry.ns)
            and (not self.names or entry.name in self.names or _selected(entry) in self.names)
        )

    def __str__(self) -> str:
        where = f" in {self.ns}" if self.ns else ""
        named = f" named {', '.join(self.names)}" if self.names else ""
        return f"{self.role}: {self.verb} {self.resource}.{self.group}{named}{where}"


def _selected(entry: Entry) -> str:
    """Return the name in the field selector of a list or watch of one object."""
    _, _, rest = entry.uri.partition("metadata.name%3D")
    return rest.partition("&")[0]


@dataclasses.dataclass(frozen=True)
class Granted:
    """A user with the printed roles and no others."""

    user: str
    rights: tuple[Right, ...]

    def unused(self, entries: Iterable[Entry]) -> set[Right]:
        # A GET that finds nothing was allowed, too.
        asked = [entry for entry in entries if entry.user == self.user and (entry.code < 400 or entry.code == 404)]
        # Server-side apply of an object that is not there needs the right to create it, too.
        asked += [
            dataclasses.replace(entry, verb="create") for entry in asked if (entry.verb, entry.code) == ("patch", 201)
        ]
        return {right for right in self.rights if not any(right.covers(entry) for entry in asked)}


def printed(*words: str) -> list[Json]:
    done = CliRunner().invoke(root, words)
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.output))


def grant(plane: ControlPlane, prefix: str, *words: str, account: str = "") -> Granted:
    """Apply what `haulout rbac` prints for these words, under names that begin with the prefix, and wait for it.

    With it come the Secret without data that the roles allow to fill, and the policy for the account, as in an installation.

    `account`: the user name of the service account that the words name; empty: another user is bound in its place.
    """
    api, user = plane.api(), account or plane.limited_user([])
    documents = printed("rbac", *words)
    bindings = [each for each in documents if each["kind"].endswith("Binding")]
    bound = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings}
    roles = [each for each in documents if (each["kind"], each["metadata"]["name"]) in bound]
    for each in documents:
        if each["kind"] == "Namespace" and api.find("namespaces", each["metadata"]["name"]) is None:
            api.create("namespaces", each)
    for each in (*roles, *bindings):
        meta = {**each["metadata"], "name": f"{prefix}-{each['metadata']['name']}"}
        body = {**each, "metadata": meta}
        if each in bindings:
            body["roleRef"] = {**each["roleRef"], "name": meta["name"]}
            if not account:
                body["subjects"] = [{"apiGroup": GROUP, "kind": "User", "name": user}]
        api.create(f"{GROUP}/v1/{each['kind'].lower()}s", body, meta.get("namespace"))
    if not account:
        limit(plane, prefix, user)
    granted = Granted(user, tuple(right for role in roles for right in _rights(role)))
    for right in granted.rights:
        # An installation brings the Secret that the operator may fill.
        if (right.resource, right.verb) == ("secrets", "update") and api.find(
            "secrets", right.names[0], right.ns
        ) is None:
            api.create("secrets", certificate_secret(right.ns, right.names[0]), right.ns)
    for right in granted.rights:
        eventually(lambda right=right: _may(plane, user, right), f"{user} may {right}")  # type: ignore[misc]
    return granted


def limit(plane: ControlPlane, prefix: str, user: str) -> None:
    """Apply the policy of an installation for a user, under a name that begins with the prefix."""
    policy, binding = account_policy(user)
    name = f"{prefix}-{policy['metadata']['name']}"
    api, meta = plane.api(), {"name": name}
    api.create(f"{ADMISSION}/validatingadmissionpolicies", {**policy, "metadata": meta})
    spec = {**binding["spec"], "policyName": name}
    api.create(f"{ADMISSION}/validatingadmissionpolicybindings", {**binding, "metadata": meta, "spec": spec})


def _rights(role: Json) -> Iterator[Right]:
    meta = role["metadata"]
    for rule in role["rules"]:
        names = tuple(rule.get("resourceNames", ()))
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Right(meta["name"], meta.get("namespace", ""), rule["apiGroups"][0], resource, verb, names)


def _may(plane: ControlPlane, user: str, right: Right) -> bool:
    resource, _, sub = right.resource.partition("/")
    asked = {
        "group": right.group,
        "resource": resource,
        "subresource": sub,
        "verb": right.verb,
        "namespace": right.ns,
        "name": right.names[0] if right.names else "",
    }
    spec = {"user": user, "resourceAttributes": asked}
    review = plane.api().create("authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    return bool(review["status"]["allowed"])
