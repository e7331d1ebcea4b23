"""`haulout.yaml`: read strictly, every error at once, with its place and what would be right."""

from __future__ import annotations

import difflib
import logging
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from haulout.base import duration, selector, yaml
from haulout.base.address import OFF, AddressError, split_address
from haulout.base.network import is_network
from haulout.base.yaml import Node, Place, Scalar, YamlError
from haulout.settings.settings import (
    TO_COME,
    ClusterApi,
    Esx,
    Kubernikus,
    Lease,
    NodeMaintenance,
    PodRule,
    PodRules,
    Settings,
    Webhooks,
)

ENVIRONMENT_PREFIX = "HAULOUT_"
HOME_NAMESPACE = "haulout-system"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FORMATS = ("json", "console")
# One that takes longer is given up whatever is set.
LONGEST_REQUEST_FOR = timedelta(seconds=30)


class SettingsProblem(Exception):
    """Everything that is wrong with the settings, a line each."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class LogBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block `log` of `haulout.yaml`: how log lines are written, and from which level on."""

    format: str = "json"
    level: str = "info"


class ListenBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block `listen` of `haulout.yaml`: the addresses of the HTTP servers."""

    http: str = ":8080"
    health: str = ":8081"
    webhooks: str = ":9443"


class WebhooksBlock(msgspec.Struct, frozen=True):
    """The block `webhooks` of `haulout.yaml`: the certificates and the Service of the admission webhooks."""

    certificates: str = "self"
    service: str = "haulout-webhook"
    secret: str = "haulout-webhook-cert"  # noqa: S105 - the name of a Secret


class LeaderBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block `leader` of `haulout.yaml`: whether replicas elect a leader, and by which Lease."""

    elect: bool = True
    lease: str = "haulout"


class KubernikusBlock(msgspec.Struct, frozen=True, rename="camel"):
    """The block `surfaces.profiles.kubernikus` of `haulout.yaml`: whether Kubernikus is served, and its files."""

    enabled: bool = False
    config: str = "config/kubernikus.yaml"
    credentials: str = "provider/cloudprovider.conf"


class EsxBlock(msgspec.Struct, frozen=True, rename="camel"):
    """The block `surfaces.profiles.esx` of `haulout.yaml`: whether ESX hosts are served, and its file."""

    enabled: bool = False
    config: str = "config/esx.yaml"


class LeaseBlock(msgspec.Struct, frozen=True):
    """Where the Lease of the surface's original is, which then has to be held, too."""

    namespace: str = ""


class ProfilesBlock(msgspec.Struct, frozen=True, rename="camel"):
    """The block `surfaces.profiles` of `haulout.yaml`.

    `metrics_timeout`: how long a process that ends waits for its metrics to be read once more.
    `lease`: set where the original's Lease has to be held as well.
    """

    config: str = "config/maintenance.yaml"
    kubernikus: KubernikusBlock = KubernikusBlock()
    esx: EsxBlock = EsxBlock()
    metrics_timeout: str = "65s"
    lease: LeaseBlock | None = None


class RuleBlock(msgspec.Struct, frozen=True, rename="camel"):
    """What a drain does with the pods that it describes; what is left out does not matter."""

    action: str = ""
    namespaces: tuple[str, ...] = ()
    selector: str = ""
    controller_kinds: tuple[str, ...] = ()
    restart_policies: tuple[str, ...] = ()
    order: int = 0


class DrainBlock(msgspec.Struct, frozen=True):
    """The block `drain` of `haulout.yaml`: what every drain does with certain pods, whichever surface drains."""

    honor_pod_annotations: bool = msgspec.field(default=True, name="honorPodAnnotations")
    honor_cluster_api_label: bool = msgspec.field(default=False, name="honorClusterAPILabel")
    rules: tuple[RuleBlock, ...] = ()


class DrainDefaultsBlock(msgspec.Struct, frozen=True, rename="camel"):
    """What a NodeMaintenance that says nothing about its drain gets."""

    force: bool = True
    delete_empty_dir_data: bool = True
    ignore_daemon_sets: bool = True
    grace_period_seconds: int = -1
    timeout_seconds: int = 30
    pod_selector: str = ""
    disable_eviction: bool = False
    skip_wait_for_delete_timeout_seconds: int = 0
    retry_interval_seconds: int = 5
    deadline_seconds: int = 0
    deadline_action: str = "Fail"


class NodeMaintenanceBlock(msgspec.Struct, frozen=True, rename="camel"):
    """The block `surfaces.nodemaintenance` of `haulout.yaml`; docs/nodemaintenance.md describes the settings."""

    lease_namespace: str = "medik8s-leases"
    lease_duration: str = "1h"
    max_concurrent_maintenances: int = 0
    restore_node_state: bool = True
    quorum_on_kubernetes: bool = False
    node_conditions: bool = False
    eviction_backend: str = "eviction"
    priority_order: bool = False
    skip_unreachable_after: str = "0s"
    drain: DrainDefaultsBlock = DrainDefaultsBlock()
    lease: LeaseBlock | None = None


class ClusterApiBlock(msgspec.Struct, frozen=True, rename="camel"):
    """The block `surfaces.clusterapi` of `haulout.yaml`; docs/clusterapi.md describes the settings."""

    enable_metal3_maintenance: bool = False
    allow_exec_kubeconfigs: bool = False
    guard_remediation: bool = False
    approval_hygiene: bool = False
    deletion_approval_timeout: str = "0s"
    prefer_limited_kubeconfigs: bool = False
    reboot_mode_annotation: bool = False
    workload_requests: bool = False
    allowed_server_ranges: tuple[str, ...] = ()
    allow_http_kubeconfigs: bool = False
    lease: LeaseBlock | None = None


class SurfacesBlock(msgspec.Struct, frozen=True):
    """The block `surfaces` of `haulout.yaml`. A surface whose block is None is switched off."""

    profiles: ProfilesBlock | None = None
    nodemaintenance: NodeMaintenanceBlock | None = None
    clusterapi: ClusterApiBlock | None = None


class File(msgspec.Struct, frozen=True):
    """The whole file; a block switches its surface on."""

    namespace: str = ""
    kubeconfig: str = ""
    context: str = ""
    request_timeout: str = msgspec.field(default="30s", name="requestTimeout")
    log: LogBlock = LogBlock()
    listen: ListenBlock = ListenBlock()
    leader: LeaderBlock = LeaderBlock()
    webhooks: WebhooksBlock = WebhooksBlock()
    drain: DrainBlock = DrainBlock()
    surfaces: SurfacesBlock = SurfacesBlock()


SURFACES: dict[str, type[msgspec.Struct]] = {
    "profiles": ProfilesBlock,
    "nodemaintenance": NodeMaintenanceBlock,
    "clusterapi": ClusterApiBlock,
}
CERTIFICATES = ("self", "cert-manager")
BACKENDS = ("eviction", "evictionrequest")
DEADLINE_ACTIONS = ("Fail", "ForceDelete")
POD_ACTIONS = ("ignore", "wait", "evict", "delete", "block")
RESTART_POLICIES = ("Always", "OnFailure", "Never")


def read_file(data: bytes, source: str, environment: Mapping[str, str], flags: Mapping[str, str]) -> File:
    """Flags win over the environment, that over the file. Both name settings by their path, as in `log.level`."""
    reader = _Reader(source)
    try:
        tree = yaml.parse(data) if data else None
        reader.second_document(yaml.second_document(data) if data else None)
    except YamlError as error:
        place = f":{error.place.line}:{error.place.column}" if error.place else ""
        raise SettingsProblem([f"{source}{place}: {error.problem}"]) from None
    plain = reader.block(File, tree, ())
    for path, text, origin in _overrides(environment, flags):
        _put(plain, path, text)
        reader.origins[path] = origin
    made = reader.made(plain)
    if problems := reader.problems():
        raise SettingsProblem(problems)
    return made


def read_settings(
    data: bytes, source: str, environment: Mapping[str, str], flags: Mapping[str, str], surfaces: str
) -> Settings:
    """What a process is started with, or SettingsProblem with everything that is wrong."""
    wanted = [name.strip() for name in surfaces.split(",") if name.strip()]
    problems = [f"--surfaces: {no_surface(name)}" for name in wanted if name not in SURFACES]
    try:
        file = read_file(data, source, environment, flags)
    except SettingsProblem as problem:
        raise SettingsProblem([*problems, *problem.lines]) from None
    if problems:
        raise SettingsProblem(problems)
    file = pick_surfaces(file, wanted)
    if file.surfaces == SurfacesBlock():
        raise SettingsProblem(
            [f"{source}: no surface is switched on (surfaces: {{profiles: {{}}}} or --surfaces profiles)"]
        )
    made = _settings(file)
    return msgspec.structs.replace(made, file=source, flags=tuple(flags.items()), surfaces=surfaces)


def no_surface(name: str) -> str:
    """Of a name that is none, or not yet."""
    what = f"{name} is not part of this version yet" if name in TO_COME else f"there is no surface {name!r}"
    return f"{what} (there are: {', '.join(SURFACES)})"


def _settings(file: File) -> Settings:
    lease = Lease(file.leader.lease, file.namespace, outside=HOME_NAMESPACE) if file.leader.elect else None
    profiles = file.surfaces.profiles
    return Settings(
        kubeconfig=file.kubeconfig,
        context=file.context,
        namespace=file.namespace,
        request_for=duration.parse(file.request_timeout).total_seconds(),
        http=file.listen.http,
        health=file.listen.health,
        webhooks=Webhooks(
            address=file.listen.webhooks,
            certificates=file.webhooks.certificates,
            service=file.webhooks.service,
            secret=file.webhooks.secret,
            outside=HOME_NAMESPACE,
        ),
        lease=lease,
        surface_leases=tuple(_surface_leases(file.surfaces)),
        log_format=file.log.format,
        log_level=LEVELS[file.log.level],
        scrape_within=duration.parse(profiles.metrics_timeout).total_seconds() if profiles else 0.0,
        profiles_config=profiles.config if profiles else "",
        kubernikus=Kubernikus(**msgspec.structs.asdict(profiles.kubernikus)) if profiles else Kubernikus(),
        esx=Esx(**msgspec.structs.asdict(profiles.esx)) if profiles else Esx(),
        nodemaintenance=_maintenance(file.surfaces.nodemaintenance),
        clusterapi=_bridge(file.surfaces.clusterapi),
        pod_rules=_pod_rules(file.drain),
    )


def _maintenance(block: NodeMaintenanceBlock | None) -> NodeMaintenance | None:
    if block is None:
        return None
    said, usual = msgspec.structs.asdict(block.drain), msgspec.structs.asdict(DrainDefaultsBlock())
    return NodeMaintenance(
        lease_namespace=block.lease_namespace,
        lease_duration=duration.parse(block.lease_duration).total_seconds(),
        max_concurrent_maintenances=block.max_concurrent_maintenances,
        restore_node_state=block.restore_node_state,
        quorum_on_kubernetes=block.quorum_on_kubernetes,
        node_conditions=block.node_conditions,
        eviction_backend=block.eviction_backend,
        priority_order=block.priority_order,
        skip_unreachable_after=duration.parse(block.skip_unreachable_after).total_seconds(),
        drain=tuple((name, value) for name, value in said.items() if value != usual[name]),
    )


def _bridge(block: ClusterApiBlock | None) -> ClusterApi | None:
    if block is None:
        return None
    said = {name: value for name, value in msgspec.structs.asdict(block).items() if name != "lease"}
    timeout = duration.parse(block.deletion_approval_timeout).total_seconds()
    return ClusterApi(**{**said, "deletion_approval_timeout": timeout})


def _surface_leases(surfaces: SurfacesBlock) -> Iterator[tuple[str, str]]:
    for name, block in msgspec.structs.asdict(surfaces).items():
        if block is not None and block.lease is not None:
            yield name, block.lease.namespace


def _pod_rules(block: DrainBlock) -> PodRules:
    rules = tuple(
        PodRule(
            action=rule.action.lower(),
            namespaces=rule.namespaces,
            selector=rule.selector,
            controller_kinds=rule.controller_kinds,
            restart_policies=rule.restart_policies,
            order=rule.order,
        )
        for rule in block.rules
    )
    return PodRules(
        rules=rules, annotation=block.honor_pod_annotations, cluster_api_label=block.honor_cluster_api_label
    )


def pick_surfaces(file: File, names: Sequence[str]) -> File:
    """`--surfaces a,b`: just these, with their blocks or without."""
    if not names:
        return file
    chosen: dict[str, Any] = {name: getattr(file.surfaces, name) or SURFACES[name]() for name in names}
    return msgspec.structs.replace(file, surfaces=SurfacesBlock(**chosen))


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._places: dict[tuple[str, ...], Place] = {}
        self.origins: dict[tuple[str, ...], str] = {}
        self._problems: dict[tuple[str, ...], tuple[Place, str]] = {}

    def problems(self) -> list[str]:
        """From top to bottom; what does not stand in the file comes first."""
        found = sorted(self._problems.values(), key=lambda found: (found[0].line, found[0].column))
        return [text for _, text in found]

    def second_document(self, place: Place | None) -> None:
        if place is not None:
            text = (
                f"{self._source}:{place.line}:{place.column}: another document begins, and only the first one is read"
            )
            self._problems["---",] = (place, f"{text} (write everything above the ---, or take it away)")

    def block(self, kind: type[Any], node: Node | None, path: tuple[str, ...]) -> dict[str, Any]:
        if node is None or yaml.is_null(node):
            return {}
        self._places[path] = node.place
        if not isinstance(node, yaml.Mapping):
            self._wrong(path, "a map of settings belongs here", "write name: value")
            return {}
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        plain: dict[str, Any] = {}
        for name, value in node.entries.items():
            inner = (*path, name)
            self._places[inner] = node.keys.get(name, value.place)
            if name in node.earlier:
                self._wrong(inner, f"stands in line {node.earlier[name].line} already", "keep one of them")
            if name not in fields:
                near = difflib.get_close_matches(name, fields, 1)
                right = f"did you mean {near[0]}?" if near else f"known are: {', '.join(fields)}"
                is_coming = kind is SurfacesBlock and name in TO_COME
                self._wrong(inner, "not part of this version yet" if is_coming else "unknown setting", right)
            elif (item := _item(fields[name].type)) is not None:
                plain[name] = self._sequence(item, value, inner)
            elif (struct := _inner(fields[name].type)) is not None:
                plain[name] = self.block(struct, value, inner)
            elif not yaml.is_null(value):
                plain[name] = self._scalar(fields[name].type, value, inner)
        return plain

    def _sequence(self, item: Any, node: Node, path: tuple[str, ...]) -> list[Any]:
        if not isinstance(node, yaml.Sequence):
            self._wrong(path, "a list belongs here", "write - one entry a line, or [a, b]")
            return []
        places = [(each, (*path, str(number))) for number, each in enumerate(node.items)]
        self._places.update({inner: each.place for each, inner in places})
        if isinstance(item, type) and issubclass(item, msgspec.Struct):
            return [self.block(item, each, inner) for each, inner in places]
        return [self._scalar(item, each, inner) for each, inner in places]

    def made(self, plain: dict[str, Any]) -> File:
        """The values as typed; what is left to check is what types do not say."""
        file: File = self._struct(File, plain, ())
        if file.log.level not in LEVELS:
            self._wrong(("log", "level"), f"{file.log.level!r} is no log level", f"one of {', '.join(LEVELS)}")
        if file.log.format not in FORMATS:
            self._wrong(("log", "format"), f"{file.log.format!r} is no log format", f"one of {', '.join(FORMATS)}")
        for name, address in msgspec.structs.asdict(file.listen).items():
            self._check_address(("listen", name), address)
        for name, text in msgspec.structs.asdict(file.webhooks).items():
            if not text:
                self._wrong(("webhooks", name), "empty", "a name")
        self._check_certificates(file.webhooks.certificates, ("webhooks", "certificates"))
        self._check(_moment, file.request_timeout, ("requestTimeout",), "a duration such as 10s, of at most 30s")
        if not file.leader.lease:
            self._wrong(("leader", "lease"), "empty", "the name of a Lease")
        if file.surfaces.profiles is not None and not file.surfaces.profiles.config:
            self._wrong(("surfaces", "profiles", "config"), "empty", "the path of a maintenance.yaml")
        if file.surfaces.profiles is not None:
            path = ("surfaces", "profiles", "metricsTimeout")
            self._check(_wait, file.surfaces.profiles.metrics_timeout, path, "a duration such as 65s; 0s for none")
            for block, name in (("kubernikus", "config"), ("kubernikus", "credentials"), ("esx", "config")):
                if not getattr(getattr(file.surfaces.profiles, block), name):
                    self._wrong(("surfaces", "profiles", block, name), "empty", "the path of a file")
        if file.surfaces.nodemaintenance is not None:
            self._check_maintenance(file.surfaces.nodemaintenance)
        if file.surfaces.clusterapi is not None:
            path = ("surfaces", "clusterapi", "deletionApprovalTimeout")
            self._check(
                _wait, file.surfaces.clusterapi.deletion_approval_timeout, path, "a duration such as 90m; 0 for never"
            )
            for number, each in enumerate(file.surfaces.clusterapi.allowed_server_ranges):
                if not is_network(each):
                    at = ("surfaces", "clusterapi", "allowedServerRanges", str(number))
                    self._wrong(at, f"{each!r} is no network", "such as 10.0.0.0/8")
        for name, namespace in _surface_leases(file.surfaces):
            if not namespace:
                self._wrong(("surfaces", name, "lease", "namespace"), "empty", "where the original's Lease is")
        for number, rule in enumerate(file.drain.rules):
            if (path := ("drain", "rules", str(number))) not in self._problems:
                self._check_rule(rule, path)
        return file

    def _check_maintenance(self, block: NodeMaintenanceBlock) -> None:
        path = ("surfaces", "nodemaintenance")
        self._check(_term, block.lease_duration, (*path, "leaseDuration"), "a duration such as 1h, of at least 1s")
        self._check(
            _wait, block.skip_unreachable_after, (*path, "skipUnreachableAfter"), "a duration such as 5m; 0s for never"
        )
        self._check_amount(block.max_concurrent_maintenances, (*path, "maxConcurrentMaintenances"))
        for field in msgspec.structs.fields(DrainDefaultsBlock):
            # A grace period below zero is the pod's own.
            if field.type is int and field.encode_name != "gracePeriodSeconds":
                self._check_amount(getattr(block.drain, field.name), (*path, "drain", field.encode_name))
        self._check_word(block.eviction_backend, BACKENDS, (*path, "evictionBackend"))
        self._check_word(block.drain.deadline_action, DEADLINE_ACTIONS, (*path, "drain", "deadlineAction"))
        self._check(selector.parse, block.drain.pod_selector, (*path, "drain", "podSelector"), "a label selector")
        if not block.lease_namespace:
            self._wrong((*path, "leaseNamespace"), "empty", "the name of a namespace")

    def _check_rule(self, rule: RuleBlock, path: tuple[str, ...]) -> None:
        self._check_word(rule.action.lower(), POD_ACTIONS, (*path, "action"))
        self._check(selector.parse, rule.selector, (*path, "selector"), "a label selector such as app=db")
        for number, policy in enumerate(rule.restart_policies):
            self._check_word(policy, RESTART_POLICIES, (*path, "restartPolicies", str(number)))

    def _check_certificates(self, text: str, path: tuple[str, ...]) -> None:
        if text in CERTIFICATES or "/" in text:
            return
        near = difflib.get_close_matches(text, CERTIFICATES, 1)
        ways = f"{', '.join(CERTIFICATES)}, or a directory with a slash in it, such as ./{text}"
        self._wrong(path, f"{text!r} is not known here", f"did you mean {near[0]}? else {ways}" if near else ways)

    def _check_amount(self, amount: int, path: tuple[str, ...]) -> None:
        if amount < 0:
            self._wrong(path, f"{amount} is negative", "0 or more")

    def _check_word(self, word: str, known: Sequence[str], path: tuple[str, ...]) -> None:
        if word not in known:
            self._wrong(path, f"{word!r} is not known here", f"one of {', '.join(known)}")

    def _check(self, parse: Callable[[str], object], text: str, path: tuple[str, ...], right: str) -> None:
        try:
            parse(text)
        except ValueError as error:
            self._wrong(path, str(error), right)

    def _check_address(self, path: tuple[str, ...], address: str) -> None:
        try:
            _ = address in OFF or split_address(address)
        except AddressError:
            self._wrong(path, f"{address!r} is not an address to listen on", 'HOST:PORT, ":PORT", or "0" for none')

    def _struct(self, kind: type[Any], plain: dict[str, Any], path: tuple[str, ...]) -> Any:
        values: dict[str, Any] = {}
        for field in msgspec.structs.fields(kind):
            if field.encode_name not in plain:
                continue
            inner, value = (*path, field.encode_name), plain[field.encode_name]
            struct, item = _inner(field.type), _item(field.type)
            if item is not None:
                values[field.name] = tuple(self._items(item, value, inner))
            elif struct is not None:
                values[field.name] = self._struct(struct, value, inner)
            elif field.type is int:
                values[field.name] = self._integer(value, inner)
            elif field.type is bool and isinstance(value, str):
                if value.lower() not in ("true", "false"):
                    self._wrong(inner, f"{value!r} is neither true nor false", "true or false")
                values[field.name] = value.lower() == "true"
            else:
                values[field.name] = value
        return kind(**values)

    def _items(self, item: Any, value: Any, path: tuple[str, ...]) -> Iterator[Any]:
        """A text from a flag or the environment is a list with commas."""
        entries = [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value
        for number, each in enumerate(entries):
            if isinstance(item, type) and issubclass(item, msgspec.Struct):
                if isinstance(each, dict):
                    yield self._struct(item, each, (*path, str(number)))
                else:
                    self._wrong(path, "rules can be given in the file alone", "write them there")
            else:
                yield each

    def _integer(self, value: Any, path: tuple[str, ...]) -> int:
        text = str(value)
        if not text.removeprefix("-").isdecimal():
            self._wrong(path, f"{text!r} is not a whole number", "digits")
            return 0
        return int(text)

    def _scalar(self, kind: Any, node: Node, path: tuple[str, ...]) -> Any:
        value = node.value if isinstance(node, Scalar) else None
        if kind is bool:
            if not isinstance(value, bool):
                self._wrong(path, "not a truth value", "true or false")
                return False
            return value
        if kind is int and (not isinstance(value, int | str) or isinstance(value, bool)):
            self._wrong(path, "not a whole number", "digits")
            return "0"
        if not isinstance(value, str | int) or isinstance(value, bool):
            self._wrong(path, "not a text", "a single value, in quotes where in doubt")
            return ""
        return str(value)

    def _wrong(self, path: tuple[str, ...], what: str, right: str) -> None:
        place, origin = self._places.get(path), self.origins.get(path)
        where = origin or (f"{self._source}:{place.line}:{place.column}" if place else self._source)
        text = ": ".join((where, ".".join(path), what) if path else (where, what))
        at = place if place and not origin else Place(0, 0)
        # What could not be read is not also too short.
        self._problems.setdefault(path, (at, f"{text} ({right})"))


def _wait(text: str) -> None:
    if duration.parse(text) < timedelta():
        raise ValueError(f"{text!r} is negative")


def _term(text: str) -> None:
    if duration.parse(text) < timedelta(seconds=1):
        raise ValueError(f"{text!r} is too short")


def _moment(text: str) -> None:
    if not timedelta() < duration.parse(text) <= LONGEST_REQUEST_FOR:
        raise ValueError(f"{text!r} is no time for a request")


def _inner(kind: Any) -> type[msgspec.Struct] | None:
    """The struct in `Struct` or `Struct | None`."""
    for each in (kind, *typing.get_args(kind)):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            return each
    return None


def _item(kind: Any) -> Any:
    """What a list is of, in `tuple[Item, ...]`."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None


def _overrides(environment: Mapping[str, str], flags: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    paths = dict(_paths(File, ()))
    for name, text in environment.items():
        # Variables that name no setting are not ours to judge: a Service called haulout makes some.
        if name.startswith(ENVIRONMENT_PREFIX) and name in paths:
            yield paths[name], text, name
    for dotted, text in flags.items():
        yield tuple(dotted.split(".")), text, f"--{dotted.replace('.', '-')}"


def _paths(kind: type[Any], path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for field in msgspec.structs.fields(kind):
        inner = (*path, field.encode_name)
        struct = _inner(field.type)
        if _item(field.type) is None and struct is not None:
            yield from _paths(struct, inner)
        else:
            yield ENVIRONMENT_PREFIX + "__".join(_upper_snake(part) for part in inner), inner


def _upper_snake(name: str) -> str:
    """`honorClusterAPILabel` is HONOR_CLUSTER_API_LABEL."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).upper()


def _put(plain: dict[str, Any], path: tuple[str, ...], value: str) -> None:
    for part in path[:-1]:
        plain = plain.setdefault(part, {})
    plain[path[-1]] = value
