"""Finds everything that Haulout, or some of its surfaces, has left in a cluster, as writes that remove it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from haulout.acts.caller import Caller
from haulout.acts.declared import claimants
from haulout.base import yaml
from haulout.core.act import NODES, Endpoint, Need, PersonalWrite, Verb
from haulout.core.logbook.wire import OPEN_LABEL, Certainty, Outcome
from haulout.core.remains import CONFIG_MAPS, LEASES, PODS, MadeKind
from haulout.core.surface import Surface
from haulout.kube.errors import Forbidden, KubeError, NotFound
from haulout.kube.lease import LABELS
from haulout.manifests.documents import NAMESPACE
from haulout.manifests.rights import roles_of
from haulout.model.meta import FIELD_MANAGER, ManagedMeta, wire_time
from haulout.removal.marks import Unmarking, shows_claim, unmark_node, unmark_object
from haulout.surfaces.registry import all_declarations, definition_of

Json = Mapping[str, Any]

DEFINITIONS = Endpoint("CustomResourceDefinition", "apiextensions.k8s.io", "v1", "customresourcedefinitions")
RECORDS = Endpoint("MaintenanceRecord", "haulout.dev", "v1alpha1", "maintenancerecords")
DEPLOYMENTS = Endpoint("Deployment", "apps", "v1", "deployments", is_namespaced=True)
NAMESPACES = Endpoint("Namespace", "", "v1", "namespaces")
_ADMISSION, _RBAC, _CORE = "admissionregistration.k8s.io", "rbac.authorization.k8s.io", ""
_REGISTRATIONS = tuple(
    Endpoint(kind, _ADMISSION, "v1", f"{kind.lower()}s")
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)
_POLICIES = (
    Endpoint("ValidatingAdmissionPolicyBinding", _ADMISSION, "v1", "validatingadmissionpolicybindings"),
    Endpoint("ValidatingAdmissionPolicy", _ADMISSION, "v1", "validatingadmissionpolicies"),
)
# The kinds of objects that install Haulout, in the order of their removal. The Deployment is the last that has to do with
# its pods, so that an interrupted removal finds it again.
_INSTALLED = tuple(
    Endpoint(kind, group, version, resource, is_namespaced=True)
    for kind, group, version, resource in (
        ("ServiceMonitor", "monitoring.coreos.com", "v1", "servicemonitors"),
        ("PrometheusRule", "monitoring.coreos.com", "v1", "prometheusrules"),
        ("Certificate", "cert-manager.io", "v1", "certificates"),
        ("Issuer", "cert-manager.io", "v1", "issuers"),
        ("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
        ("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
        ("Service", _CORE, "v1", "services"),
        ("Secret", _CORE, "v1", "secrets"),
        ("ConfigMap", _CORE, "v1", "configmaps"),
        ("Deployment", "apps", "v1", "deployments"),
        ("ServiceAccount", _CORE, "v1", "serviceaccounts"),
    )
)
_ROLES = tuple(
    Endpoint(kind, _RBAC, "v1", f"{kind.lower()}s", is_namespaced=not kind.startswith("Cluster"))
    for kind in ("RoleBinding", "Role", "ClusterRoleBinding", "ClusterRole")
)
SELECTORS = ("app.kubernetes.io/name in (haulout, haulout-console)", "app.kubernetes.io/part-of=haulout")
# Objects that are removed together, in the words of the command.
REGISTRATIONS, WORK, MARKS, LEFT, GONE, INSTALLED = (
    "registrations of webhooks and policies",
    "pods, Jobs and ConfigMaps of maintenances",
    "marks on nodes and objects",
    "Leases and records",
    "definitions, with all their objects",
    "the installation",
)


class Wanted(msgspec.Struct, frozen=True):
    """What is to be removed.

    `surfaces`: their names; empty: all of them with the kernel and the installation. `namespace`: that of the operator.
    `definitions`: remove the CustomResourceDefinitions, too, and so all objects of these kinds.
    `kept`: surfaces whose objects another operator serves, such as their original.
    """

    surfaces: tuple[str, ...] = ()
    namespace: str = NAMESPACE
    definitions: bool = False
    kept: frozenset[str] = frozenset()

    @property
    def is_all(self) -> bool:
        return not self.surfaces

    def declarations(self) -> tuple[Surface, ...]:
        """Return the surfaces that go, each with those within it."""
        return tuple(each for each in all_declarations() if self._has(each.within or each.name))

    def _has(self, name: str) -> bool:
        return name not in self.kept and (self.is_all or name in self.surfaces)


class Erasure(msgspec.Struct, frozen=True):
    """One write that removes something. `text`: what it removes of the object, or empty for the object itself."""

    phase: str
    write: PersonalWrite
    text: str = ""

    @property
    def line(self) -> str:
        place = "/".join(filter(None, (self.write.namespace, self.write.name)))
        return f"{self.write.endpoint.named}/{place}" + (f": {self.text}" if self.text else "")


class Unreadable(Exception):
    """The error of objects that cannot be listed. What cannot be seen is never taken for absent."""


class Findings(msgspec.Struct, frozen=True):
    """Everything that was found. `advice`: what a person has to look at. `releases`: Helm releases, as NAMESPACE/NAME.

    `unread`: the rights that are missing to see everything.
    """

    erasures: tuple[Erasure, ...]
    unread: tuple[Need, ...] = ()
    advice: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()


class Survey:
    """One look at a cluster. Raises `Unreadable` where something cannot be listed."""

    def __init__(self, caller: Caller, wanted: Wanted, now: datetime) -> None:
        self._caller = caller
        self._wanted = wanted
        self._now = now
        self._chosen = wanted.declarations()
        self._advice: list[str] = []
        self._releases: dict[str, None] = {}
        self._unread: dict[Need, None] = {}

    async def findings(self) -> Findings:
        parts = (self._registrations, self._work, self._marks, self._leases, self._definitions, self._installation)
        found = [each for part in parts for each in await part()]
        return Findings(tuple(found), tuple(self._unread), tuple(self._advice), tuple(self._releases))

    async def _all(self, endpoint: Endpoint, selector: str = "", namespace: str = "") -> tuple[Json, ...]:
        if await self._caller.serves(endpoint) is False:
            return ()
        try:
            return await self._caller.select(endpoint, selector, namespace)
        except NotFound:
            return ()
        except Forbidden:
            self._unread[Need("list", endpoint, namespace)] = None
            return ()
        except KubeError as error:
            raise Unreadable(f"{endpoint.named} cannot be listed: {error}") from error

    async def _registrations(self) -> list[Erasure]:
        names = {hook.configuration for each in self._chosen for hook in each.webhooks}
        found = [
            self._deletion(REGISTRATIONS, endpoint, each)
            for endpoint in _REGISTRATIONS
            for each in await self._all(endpoint)
            if _name(each) in names and self._is_our_registration(each)
        ]
        if self._wanted.is_all:
            from haulout.core.budgets.override_registration import POLICY
            from haulout.manifests.account_policy import POLICY as ACCOUNT_POLICY

            for endpoint in _POLICIES:
                found += [
                    self._deletion(REGISTRATIONS, endpoint, each)
                    for each in await self._all(endpoint)
                    if _name(each) in (POLICY, ACCOUNT_POLICY)
                ]
        return found

    def _is_our_registration(self, configuration: Json) -> bool:
        """Whether a webhook configuration is ours: originals have some of the same names."""
        services = [
            (each.get("clientConfig") or {}).get("service") or {} for each in configuration.get("webhooks") or ()
        ]
        is_served_here = any(each.get("namespace") == self._wanted.namespace for each in services)
        return is_served_here or LABELS.items() <= (_meta(configuration).get("labels") or {}).items()

    async def _work(self) -> list[Erasure]:
        """Return the removals of the objects that surfaces have made. A pod may fit two surfaces' labels."""
        kinds = [each for surface in self._chosen for each in surface.remains.made if each.endpoint != LEASES]
        kinds = [each for each in kinds if self._wanted.definitions or not each.is_record]
        found = {_uid(each): (kind, each) for kind in kinds for each in await self._all(kind.endpoint, kind.selector)}
        erasures = [
            self._deletion(WORK, kind.endpoint, each)
            for kind, each in found.values()
            if _is_made_by_us(each) and not _is_leaving(each)
        ]
        names = {name for each in self._chosen for name in each.remains.names}
        if names:
            held = await self._all(CONFIG_MAPS, namespace=self._wanted.namespace)
            erasures += [self._deletion(WORK, CONFIG_MAPS, each) for each in held if _name(each) in names]
        return erasures

    async def ending_pods(self) -> list[str]:
        """Return the pods of maintenances that are there, as NAMESPACE/NAME."""
        kinds = [each for surface in self._chosen for each in surface.remains.made if each.endpoint == PODS]
        return [
            f"{_namespace(each)}/{_name(each)}"
            for kind in kinds
            for each in await self._all(PODS, kind.selector)
            if _is_made_by_us(each)
        ]

    async def _marks(self) -> list[Erasure]:
        found: list[Erasure] = []
        for each in self._chosen:
            for kind in each.remains.marked:
                for target in await self._all(kind.endpoint, kind.selector):
                    found += self._patches(kind.endpoint, target, unmark_object(target, kind.marks, kind.finalizers))
        # Nodes come before the objects that show why they are out of service: an interrupted removal finds both again.
        return [*await self._nodes(), *found]

    async def _nodes(self) -> list[Erasure]:
        marks = tuple(mark for each in self._chosen for mark in each.remains.nodes)
        gone = frozenset(each.name for each in self._chosen)
        advice = dict(pair for each in self._chosen for pair in each.remains.advice)
        claimed = await self._claimed_by_others(gone)
        others = tuple(each for each in all_declarations() if each.name not in gone)
        found: list[Erasure] = []
        for target in await self._all(NODES):
            unmarking = unmark_node(
                target,
                marks,
                gone,
                is_shared=_name(target) in claimed or shows_claim(target, others),
                is_last=self._wanted.is_all and not self._wanted.kept,
                keeps_records=not self._wanted.definitions,
            )
            patches = list(self._patches(NODES, target, unmarking))
            found += patches
            self._advice += [f"node {_name(target)}: {advice[name]}" for name in unmarking.found if name in advice]
            if patches and _is_cordoned(target) and "cordon" not in unmarking.texts:
                self._advice.append(
                    f"node {_name(target)} stays cordoned: a person, or a program that is not known, has cordoned it"
                )
        return found

    async def _claimed_by_others(self, gone: frozenset[str]) -> frozenset[str]:
        """Return the names of nodes that objects of remaining surfaces are about."""
        if self._wanted.is_all and not self._wanted.kept:
            return frozenset()
        going = {kind.kind for each in all_declarations() if each.name in gone for kind in each.archive}
        found: set[str] = set()
        for kind in claimants():
            if kind.kind not in going:
                endpoint = Endpoint(kind.kind, kind.group, kind.versions[0], kind.plural, is_namespaced=True)
                found.update(_at(each, kind.node) for each in await self._all(endpoint))
        return frozenset(found)

    def _patches(self, endpoint: Endpoint, target: Json, unmarking: Unmarking) -> Iterator[Erasure]:
        patch = partial(PersonalWrite, Verb.PATCH, endpoint, _name(target), _namespace(target))
        known = {"uid": _uid(target), "resource_version": str(_meta(target).get("resourceVersion", ""))}
        if unmarking.body:
            yield Erasure(MARKS, patch(unmarking.body, **known), ", ".join(unmarking.texts))
        elif unmarking.conditions is not None:
            # The patch above changes the version. The conditions are removed by the next look.
            body = {"status": {"conditions": unmarking.conditions}}
            yield Erasure(MARKS, patch(body, "status", **known), ", ".join(unmarking.texts))

    async def _leases(self) -> list[Erasure]:
        kinds = [each for surface in self._chosen for each in surface.remains.made if each.endpoint == LEASES]
        found = [
            self._deletion(LEFT, LEASES, each)
            for each in await self._all(LEASES)
            if any(_is_held(each, kind) for kind in kinds) or (self._wanted.is_all and _is_our_lease(each))
        ]
        return [*found, *([] if self._wanted.definitions else await self._records())]

    async def _records(self) -> list[Erasure]:
        """Return the patches that close the records of maintenances that end here."""
        names = {each.name for each in self._chosen}
        return [
            Erasure(LEFT, self._closing(each), "close it")
            for each in await self._all(RECORDS, f"{OPEN_LABEL}=true")
            # Drains by hand go on without an operator, and `haulout uncordon` closes their records.
            if (each.get("spec") or {}).get("surface") in names
        ]

    def _closing(self, record: Json) -> PersonalWrite:
        ended = {"name": "ended", "at": wire_time(self._now), "certainty": Certainty.EXACT.value}
        phases = [*((record.get("status") or {}).get("phases") or ()), ended]
        status = {"outcome": Outcome.CANCELLED.value, "endedAt": ended["at"], "phases": phases}
        body = {"metadata": {"labels": {OPEN_LABEL: None}}, "status": status}
        version = str(_meta(record).get("resourceVersion", ""))
        return PersonalWrite(Verb.PATCH, RECORDS, _name(record), body=body, uid=_uid(record), resource_version=version)

    async def _definitions(self) -> list[Erasure]:
        found = await self.definitions() if self._wanted.definitions else []
        return [self._deletion(GONE, DEFINITIONS, each) for each in found if not _is_leaving(each)]

    async def definitions(self) -> list[Json]:
        """Return the definitions that go, also those that the API server is deleting already."""
        names = {yaml.load(definition_of(each, crd))["metadata"]["name"] for each in self._chosen for crd in each.crds}
        return [each for each in await self._all(DEFINITIONS) if _name(each) in names]

    async def _installation(self) -> list[Erasure]:
        if not self._wanted.is_all:
            return await self._roles()
        found: list[Erasure] = []
        for endpoint in _INSTALLED:
            found += [self._deletion(INSTALLED, endpoint, each) for each in await self.labelled(endpoint)]
        found += await self._roles()
        return [*found, *await self._namespace()]

    async def labelled(self, endpoint: Endpoint) -> list[Json]:
        """Return the objects in the operator's namespace that install Haulout."""
        found = {
            _uid(each): each for label in SELECTORS for each in await self._all(endpoint, label, self._wanted.namespace)
        }
        for each in found.values():
            if release := (_meta(each).get("annotations") or {}).get("meta.helm.sh/release-name"):
                self._releases[f"{_namespace(each)}/{release}"] = None
        return [each for each in found.values() if not _is_leaving(each)]

    async def _roles(self) -> list[Erasure]:
        """Return the removals of roles. A tenant may give our labels to a Role, so that its name has to fit, too."""
        names = {role.name for each in self._chosen for role in roles_of(each.name)}
        found: dict[str, Erasure] = {}
        for endpoint in _ROLES:
            for selector in SELECTORS:
                for each in await self._all(endpoint, selector):
                    is_ours = not endpoint.is_namespaced or self._is_installed_by_us(each)
                    if (self._wanted.is_all and is_ours) or _name(each) in names:
                        found[_uid(each)] = self._deletion(INSTALLED, endpoint, each)
        return list(found.values())

    def _is_installed_by_us(self, role: Json) -> bool:
        """Whether a labelled Role has a name of ours, or a release of Helm in our namespace has made it."""
        notes = _meta(role).get("annotations") or {}
        is_released_here = notes.get("meta.helm.sh/release-namespace") == self._wanted.namespace
        return is_released_here or _name(role).startswith("haulout")

    async def _namespace(self) -> list[Erasure]:
        """Return the removal of the operator's namespace, if `haulout manifests` has made it."""
        found = await self._all(NAMESPACES, SELECTORS[1])
        ours = [each for each in found if _name(each) == self._wanted.namespace and not _is_leaving(each)]
        return [
            msgspec.structs.replace(self._deletion(INSTALLED, NAMESPACES, each), text="with everything in it")
            for each in ours
        ]

    @staticmethod
    def _deletion(phase: str, endpoint: Endpoint, target: Json) -> Erasure:
        write = PersonalWrite(Verb.DELETE, endpoint, _name(target), _namespace(target), uid=_uid(target))
        return Erasure(phase, write)


def _is_made_by_us(target: Json) -> bool:
    """Whether the operator has created an object. One without a note of its creator may come from a backup."""
    return _creator(target) in ("", FIELD_MANAGER)


def _is_our_lease(lease: Json) -> bool:
    labels = _meta(lease).get("labels") or {}
    return LABELS.items() <= labels.items() or _creator(lease) == FIELD_MANAGER


def _is_held(lease: Json, kind: MadeKind) -> bool:
    return (lease.get("spec") or {}).get("holderIdentity") == kind.holder


def _creator(target: Json) -> str:
    return msgspec.convert(_meta(target), ManagedMeta, strict=False).creator


def _is_cordoned(target: Json) -> bool:
    return bool((target.get("spec") or {}).get("unschedulable"))


def _is_leaving(target: Json) -> bool:
    return bool(_meta(target).get("deletionTimestamp"))


def _meta(target: Json) -> Json:
    metadata: Json = target.get("metadata") or {}
    return metadata


def _name(target: Json) -> str:
    return str(_meta(target).get("name", ""))


def _namespace(target: Json) -> str:
    return str(_meta(target).get("namespace", ""))


def _uid(target: Json) -> str:
    return str(_meta(target).get("uid", ""))


def _at(body: Any, path: str) -> str:
    for name in path.split("."):
        body = body.get(name) if isinstance(body, Mapping) else None
    return str(body or "")
