"""Skyhook on the wire: its names, the object with its defaults, and its row with normalised packages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from haulout.base import bounds
from haulout.base.selector import Selector, SelectorError, from_object
from haulout.cluster.key import Key
from haulout.cluster.project import Resource
from haulout.cluster.rows import AskedRow
from haulout.cluster.view import View
from haulout.model.meta import COMMAND_MANAGER, FIELD_MANAGER, LabelSelector, ObjectMeta, creator_of
from haulout.model.pod import Toleration
from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT, OF_KIND, SKYHOOK, Group
from haulout.surfaces.packages.wire_status import SkyhookStatus, bound_status

SURFACE = "packages"
API_VERSION, KIND, PLURAL = SKYHOOK.api_version, SKYHOOK.kind, SKYHOOK.plural
PREFIX, FINALIZER = SKYHOOK.prefix, SKYHOOK.finalizer
REPORTER = "skyhook-controller"
# With a longer name, `nodeState_<name>` would exceed the 63 characters of an annotation's name.
LONGEST_SKYHOOK_NAME = 53
DEFAULT_PRIORITY = 200
DEFAULT_COMPARTMENT = "__default__"
# The bounds of a spec without the files of its packages.
SPEC_BOUNDS = bounds.TreeBounds(longest=131_072, most=20_000, characters=1 << 20)

# Annotations on Skyhooks.
PAUSE, DISABLE, STAMP = f"{PREFIX}pause", f"{PREFIX}disable", f"{PREFIX}version"
# Annotations on NodeWrights that the original made of a Skyhook: its name, and its generation at that time.
MIRRORED_FROM, MIRRORED_GENERATION = f"{NODEWRIGHT.prefix}mirrored-from", f"{NODEWRIGHT.prefix}mirrored-generation"
# An annotation on the object that leads a unit of two objects (see `unit.py`).
LEADS = "haulout.dev/leads"
# An annotation on Skyhooks: the entries on nodes that are not uninstalled although no package has them (`units/remains.py`).
LEFT_ALONE = "haulout.dev/left-alone"
# Labels on Nodes that belong to no single Skyhook; `node_names` has the others.
IGNORE = f"{PREFIX}ignore"
# An annotation on Nodes that were cordoned when they lost the taint of required packages.
CORDONED_AFTER = f"{PREFIX}runtimeRequiredCordon"
# Labels and annotations on pods and ConfigMaps.
NAME, PACKAGE, INTERRUPT_LABEL = f"{PREFIX}name", f"{PREFIX}package", f"{PREFIX}interrupt"
NODE_META = f"{PREFIX}skyhook-node-meta"
PACKAGE_NAME, PACKAGE_VERSION, NODE_NAME = f"{PREFIX}Package.Name", f"{PREFIX}Package.Version", f"{PREFIX}Node.name"

# Statuses of a Skyhook, and of a node for a Skyhook.
UNKNOWN, COMPLETE, BLOCKED, WAITING = "unknown", "complete", "blocked", "waiting"
DISABLED, PAUSED, IN_PROGRESS, ERRORING = "disabled", "paused", "in_progress", "erroring"
STATUSES = (UNKNOWN, COMPLETE, BLOCKED, WAITING, DISABLED, PAUSED, IN_PROGRESS, ERRORING)

# Types of interrupt, the strongest first, each with the agent's word for it.
INTERRUPTS = {
    "reboot": "node_restart",
    "restartAllServices": "restart_all_services",
    "service": "service_restart",
    "noop": "no_op",
}


class Interrupt(Struct, frozen=True, rename="camel"):
    """An interrupt: what has to be restarted after a package has changed a host."""

    type: str = ""
    services: tuple[str, ...] = ()


Quantity = int | float | str


class Resources(Struct, frozen=True, rename="camel"):
    """The resources of a package's containers. Either all four are set or none."""

    cpu_request: Quantity | None = None
    cpu_limit: Quantity | None = None
    memory_request: Quantity | None = None
    memory_limit: Quantity | None = None


class Uninstall(Struct, frozen=True):
    """How a package is uninstalled.

    `enabled`: the package can be uninstalled explicitly, and has to be before it is removed or downgraded.
    `apply`: uninstall it now.
    """

    enabled: bool = False
    apply: bool = False


class Package(Struct, frozen=True, rename="camel"):
    """One package of a Skyhook. After `normalised`, `name` is its key and `image` has no tag."""

    name: str = ""
    version: str = ""
    image: str = ""
    container_sha: str = msgspec.field(default="", name="containerSHA")
    agent_image_override: str = ""
    interrupt: Interrupt | None = None
    config_interrupts: dict[str, Interrupt] = {}
    config_map: dict[str, str] = {}
    depends_on: dict[str, str] = {}
    env: tuple[dict[str, Any], ...] = ()
    resources: Resources | None = None
    graceful_shutdown: str | None = None
    uninstall: Uninstall | None = None
    stage_timeout: str | None = None

    @property
    def key(self) -> str:
        """The key of its entry in the node state."""
        return f"{self.name}|{self.version}"


class Budget(Struct, frozen=True):
    """How many nodes may be worked on at once: a percentage of them or a count."""

    percent: int | None = None
    count: int | None = None


class PolicyOptions(Struct, frozen=True, rename="camel"):
    """The settings of a Skyhook that override its DeploymentPolicy."""

    reset_batch_state_on_completion: bool | None = None


class DrainConfig(Struct, frozen=True, rename="camel"):
    """How a node is drained before a package with an interrupt runs. The defaults evict everything but DaemonSets."""

    delete_empty_dir_data: bool | None = True
    force: bool | None = True
    ignore_daemon_sets: bool | None = True
    disable_eviction: bool | None = False
    grace_period_seconds: int | None = None
    grace_period: str | None = None
    timeout: str | None = None


class Spec(Struct, frozen=True, rename="camel"):
    """The spec of a Skyhook. `pause` is stored but has no effect; the annotation of that name has."""

    serial: bool = False
    pause: bool = False
    pod_non_interrupt_labels: LabelSelector = LabelSelector()
    node_selectors: LabelSelector = LabelSelector()
    deployment_policy: str = ""
    deployment_policy_options: PolicyOptions | None = None
    interruption_budget: Budget | None = None
    packages: dict[str, Package] = {}
    additional_tolerations: tuple[Toleration, ...] = ()
    runtime_required: bool = False
    auto_taint_new_nodes: bool = False
    runtime_required_cordon_after: bool = False
    priority: int = DEFAULT_PRIORITY
    sequencing: str = "node"
    drain_config: DrainConfig | None = None


class _Annotations(Struct, frozen=True):
    """Whether one client has written the annotation that marks a mirror."""

    mirrored_from: Any = msgspec.field(default=msgspec.UNSET, name=f"f:{MIRRORED_FROM}")


class _OwnedMetadata(Struct, frozen=True):
    annotations: _Annotations = msgspec.field(default=_Annotations(), name="f:annotations")


class _OwnedFields(Struct, frozen=True):
    metadata: _OwnedMetadata = msgspec.field(default=_OwnedMetadata(), name="f:metadata")
    spec: Any = msgspec.field(default=msgspec.UNSET, name="f:spec")


class _ManagedFields(Struct, frozen=True):
    """The name of a client, when it last wrote the object or a subresource, and which fields, in part."""

    manager: str = ""
    time: str = ""
    subresource: str = ""
    fields: _OwnedFields = msgspec.field(default=_OwnedFields(), name="fieldsV1")


class _Meta(ObjectMeta, frozen=True, rename="camel"):
    managed_fields: tuple[_ManagedFields, ...] = ()

    @property
    def creator(self) -> str:
        """The client that created the object."""
        return creator_of(self.managed_fields)


class Skyhook(Struct, frozen=True):
    """A Skyhook (skyhook.nvidia.com/v1alpha1) or a NodeWright: packages for the nodes that it selects."""

    metadata: _Meta = _Meta()
    spec: Spec = Spec()
    status: SkyhookStatus = SkyhookStatus()


class SkyhookRow(AskedRow, frozen=True, kw_only=True):
    """The row of a Skyhook or a NodeWright, with normalised packages.

    `selector`: selects its nodes; None if it is invalid. Then the Skyhook selects no node.
    `protected`: selects the pods that must not be interrupted; None if there are none, or if it is invalid. Then the
    Skyhook does nothing, as with any other invalid spec.
    `problem`: why the spec is not kept. The Skyhook then changes nothing, and its other fields are empty.
    `tagged`: the packages of a NodeWright whose image has a tag or a digest, sorted. With one, it must not lead.
    `written_at`: when another operator wrote the status; None if this one has written it since.
    `has_manager`: a tool, or another client than the one that made the mirror, manages the spec.
    `shares_pause`, `shares_disable`: the other object of its name says so.
    """

    generation: int = 0
    spec: Spec = Spec()
    status: SkyhookStatus = SkyhookStatus()
    selector: Selector | None = None
    protected: Selector | None = None
    problem: str = ""
    tagged: tuple[str, ...] = ()
    written_at: datetime | None = None
    has_manager: bool = False
    shares_pause: bool = False
    shares_disable: bool = False

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def group(self) -> Group:
        return OF_KIND[self.key.kind]

    @property
    def stamp(self) -> str | None:
        """The version of the operator that first saw it, from its annotation."""
        return self.annotations.get(self.group.named(STAMP))

    @property
    def is_paused(self) -> bool:
        return self.annotations.get(self.group.named(PAUSE)) == "true" or self.shares_pause

    @property
    def is_disabled(self) -> bool:
        return self.annotations.get(self.group.named(DISABLE)) == "true" or self.shares_disable

    @property
    def rank(self) -> tuple[int, str]:
        """The order in which Skyhooks are applied to a node."""
        return self.spec.priority, self.key.name


def normalize_spec(spec: Spec) -> Spec:
    """Return the spec with every package named by its key and without tags in images."""
    packages = {key: normalised_package(key, package) for key, package in spec.packages.items()}
    return msgspec.structs.replace(spec, packages=packages)


def normalised_package(key: str, package: Package) -> Package:
    return msgspec.structs.replace(package, name=package.name or key, image=without_tag(package.image))


def without_tag(image: str) -> str:
    """Return an image reference without its tag. The port of a registry and a digest are left alone."""
    if "@" in image:
        return image
    place, slash, name = image.rpartition("/")
    return f"{place}{slash}{name.partition(':')[0]}"


def selector_of(labels: LabelSelector) -> Selector:
    """Return the parsed selector. Raises `SelectorError`."""
    return from_object(msgspec.to_builtins(labels))


def size_problem(spec: Spec) -> str:
    """Return why a spec is too large to be kept; empty if it is not. Only the files of packages may be long."""
    files = [package.config_map for package in spec.packages.values()]
    packages = {key: msgspec.structs.replace(package, config_map={}) for key, package in spec.packages.items()}
    rest = msgspec.structs.replace(spec, packages=packages)
    if not bounds.is_within(files, bounds.LARGE):
        return (
            f"the config maps of the Skyhook have more than {bounds.LARGE.values} files, or a file of more than 1 MiB"
        )
    if not bounds.is_within(rest, SPEC_BOUNDS):
        return (
            f"the spec of the Skyhook is too large: beside config maps it may have {SPEC_BOUNDS.values} values with"
            f" {SPEC_BOUNDS.characters // 1024} KiB together, and each of {SPEC_BOUNDS.longest // 1024} KiB"
        )
    return ""


def _project(obj: Skyhook, common: dict[str, Any]) -> SkyhookRow:
    generation, status = obj.metadata.generation, bound_status(obj.status)
    common |= {"written_at": _written_at(obj.metadata), "has_manager": _has_manager(obj.metadata)}
    if problem := size_problem(obj.spec):
        return SkyhookRow(**common, creator=obj.metadata.creator, generation=generation, status=status, problem=problem)
    spec = normalize_spec(obj.spec)
    tagged = (
        key
        for key, package in sorted(obj.spec.packages.items())
        if package.image != spec.packages[key].image or "@" in package.image
    )
    has_protected = spec.pod_non_interrupt_labels != LabelSelector()
    return SkyhookRow(
        **common,
        creator=obj.metadata.creator,
        generation=generation,
        spec=spec,
        status=status,
        selector=_valid(spec.node_selectors),
        tagged=tuple(tagged) if common["key"].kind == NODEWRIGHT.kind else (),
        protected=_valid(spec.pod_non_interrupt_labels) if has_protected else None,
    )


def _valid(labels: LabelSelector) -> Selector | None:
    """Return the parsed selector; None if it is invalid."""
    try:
        return selector_of(labels)
    except SelectorError:
        return None


def _written_at(metadata: _Meta) -> datetime | None:
    """Return when another operator wrote the status, if that was the last write of it by an operator."""
    found = [(_instant(each.time), each.manager) for each in metadata.managed_fields if each.subresource == "status"]
    times = [(at, manager == FIELD_MANAGER) for at, manager in found if at is not None and manager != COMMAND_MANAGER]
    at, is_ours = max(times, default=(None, True))
    return None if is_ours else at


def _instant(text: str) -> datetime | None:
    try:
        return bounds.instant(datetime.fromisoformat(text))
    except ValueError:
        return None


# Labels and annotations of tools that would undo a write of the spec.
_TOOLS = ("meta.helm.sh/", "argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/")


def _has_manager(metadata: _Meta) -> bool:
    """Whether the spec belongs to a tool, or to another client than the operator and the one that made the mirror."""
    if metadata.labels.get("app.kubernetes.io/managed-by") == "Helm":
        return True
    if any(name.startswith(_TOOLS) for name in (*metadata.labels, *metadata.annotations)):
        return True
    owned = [each for each in metadata.managed_fields if not each.subresource]
    makers = {each.manager for each in owned if each.fields.metadata.annotations.mirrored_from is not msgspec.UNSET}
    owners = {each.manager for each in owned if each.fields.spec is not msgspec.UNSET}
    return bool(makers) and bool(owners - makers - {FIELD_MANAGER})


RESOURCES = tuple(
    Resource(group.kind, f"/apis/{group.api_version}", group.plural, False, Skyhook, _project, bounds=None)
    for group in GROUPS
)
RESOURCE = RESOURCES[0]


def skyhook_key(name: str, group: Group = SKYHOOK) -> Key:
    return Key("", group.kind, "", name)


def unit_id(owner: Key) -> str:
    """Return the name of the rows that decisions make of an object. Those of both groups must not replace each other."""
    return owner.name if owner.kind == KIND else f"{owner.kind}/{owner.name}"


def objects_of(view: View, name: str) -> list[SkyhookRow]:
    """Return the objects of a name: the Skyhook first, then the NodeWright."""
    found = (view.get(skyhook_key(name, group), SkyhookRow) for group in readable_groups(view))
    return [row for row in found if row is not None]


def readable_groups(view: View) -> tuple[Group, ...]:
    """Return the groups whose objects may be read. The role of an older original does not know NodeWrights."""
    return GROUPS[:1] if view.is_forbidden(NODEWRIGHT.kind) else GROUPS
