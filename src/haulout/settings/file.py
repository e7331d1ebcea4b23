"""`haulout.yaml`: read strictly, every error at once, with its place and what would be right."""

from __future__ import annotations

import difflib
import logging
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Annotated, Any

import msgspec

from haulout.base import duration, selector, yaml
from haulout.base.address import OFF, AddressError, split_address
from haulout.base.yaml import Node, Place, Scalar, YamlError
from haulout.core.setting import Setting, split
from haulout.settings.settings import Lease, PodRule, PodRules, Settings, Webhooks
from haulout.surfaces.registry import SurfaceProblem, surfaces

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

    format: Annotated[str, Setting(help="How log lines are written: json or console.", is_public=True)] = "json"
    level: Annotated[str, Setting(help="From which level on: debug, info, warning or error.", is_public=True)] = "info"


class ListenBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block `listen` of `haulout.yaml`: the addresses of the HTTP servers."""

    http: Annotated[str, Setting(help="The address of metrics and information; 0 for none.", is_public=True)] = ":8080"
    health: Annotated[str, Setting(help="The address of the probes; 0 for none.", is_public=True)] = ":8081"
    webhooks: Annotated[str, Setting(help="The address of admission webhooks; 0 for none.", is_public=True)] = ":9443"


class WebhooksBlock(msgspec.Struct, frozen=True):
    """The block `webhooks` of `haulout.yaml`: the certificates and the Service of the admission webhooks."""

    certificates: Annotated[
        str,
        Setting(help="self, cert-manager, or a directory with tls.crt and tls.key (docs/webhooks.md).", is_public=True),
    ] = "self"
    service: Annotated[str, Setting(help="The Service by which API servers reach them.", is_public=True)] = (
        "haulout-webhook"
    )
    secret: Annotated[str, Setting(help="The Secret in which the certificate is kept.")] = "haulout-webhook-cert"  # noqa: S105 - the name of a Secret


class LeaderBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The block `leader` of `haulout.yaml`: whether replicas elect a leader, and by which Lease."""

    elect: Annotated[bool, Setting(help="Act only while holding the Lease.")] = True
    lease: Annotated[str, Setting(help="The name of the Lease.", is_public=True)] = "haulout"


class RuleBlock(msgspec.Struct, frozen=True, rename="camel"):
    """What a drain does with the pods that it describes; what is left out does not matter."""

    action: Annotated[str, Setting(help="ignore, wait, evict, delete or block.", is_public=True)] = ""
    namespaces: Annotated[tuple[str, ...], Setting(help="Pods of these namespaces.", is_public=True)] = ()
    selector: Annotated[str, Setting(help="Pods with these labels.")] = ""
    controller_kinds: Annotated[
        tuple[str, ...], Setting(help="Pods of controllers of these kinds.", is_public=True)
    ] = ()
    restart_policies: Annotated[
        tuple[str, ...], Setting(help="Pods with one of these restart policies.", is_public=True)
    ] = ()
    order: Annotated[int, Setting(help="Pods with a lower order leave the node first.")] = 0


class DrainBlock(msgspec.Struct, frozen=True):
    """The block `drain` of `haulout.yaml`: what every drain does with certain pods, whichever surface drains."""

    honor_pod_annotations: Annotated[bool, Setting(help="Heed the annotation haulout.dev/drain of pods.")] = (
        msgspec.field(default=True, name="honorPodAnnotations")
    )
    honor_cluster_api_label: Annotated[
        bool, Setting(help="On nodes of Cluster API, heed the label cluster.x-k8s.io/drain of pods.")
    ] = msgspec.field(default=False, name="honorClusterAPILabel")
    rules: Annotated[
        tuple[RuleBlock, ...], Setting(help="What is done with certain pods: the first rule that fits a pod decides.")
    ] = ()


class File(msgspec.Struct, frozen=True):
    """The whole file; a block switches its surface on."""

    namespace: Annotated[
        str,
        Setting(
            help="The namespace of the Lease and of the webhooks' Secret; empty: the service account's, else haulout-system.",
            is_public=True,
        ),
    ] = ""
    kubeconfig: Annotated[
        str,
        Setting(help="Path of a kubeconfig; empty: KUBECONFIG, else the pod's service account, else ~/.kube/config."),
    ] = ""
    context: Annotated[str, Setting(help="The context of the kubeconfig; empty: its current one.", is_public=True)] = ""
    request_timeout: Annotated[str, Setting(help="A write that takes longer counts as lost; at most 30s.")] = (
        msgspec.field(default="30s", name="requestTimeout")
    )
    log: LogBlock = LogBlock()
    listen: ListenBlock = ListenBlock()
    leader: LeaderBlock = LeaderBlock()
    webhooks: WebhooksBlock = WebhooksBlock()
    drain: DrainBlock = DrainBlock()
    # Which blocks there are in it, surfaces say: `surfaces_block`.
    surfaces: msgspec.Struct | None = None

    @property
    def blocks(self) -> dict[str, msgspec.Struct]:
        """The settings of the surfaces that are switched on, by their names."""
        if self.surfaces is None:
            return {}
        return {name: block for name, block in msgspec.structs.asdict(self.surfaces).items() if block is not None}


CERTIFICATES = ("self", "cert-manager")
POD_ACTIONS = ("ignore", "wait", "evict", "delete", "block")
RESTART_POLICIES = ("Always", "OnFailure", "Never")


@cache
def surface_settings() -> dict[str, type[msgspec.Struct]]:
    """Return the settings struct of each surface that can be served by itself."""
    return {each.name: each.settings for each in surfaces() if each.settings is not None and not each.within}


@cache
def surfaces_block() -> type[msgspec.Struct]:
    """Return the struct of the block `surfaces` of `haulout.yaml`. A surface whose block is None is switched off."""
    fields = [(name, kind | None, None) for name, kind in surface_settings().items()]
    return msgspec.defstruct("SurfacesBlock", fields, frozen=True)


def read_file(data: bytes, source: str, environment: Mapping[str, str], flags: Mapping[str, str]) -> File:
    """Read the file. Flags win over the environment, that over the file; both name settings by path, as `log.level`."""
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
    """Return what a process is started with. Raises SettingsProblem with everything that is wrong."""
    wanted = [name.strip() for name in surfaces.split(",") if name.strip()]
    try:
        problems = [f"--surfaces: {no_surface(name)}" for name in wanted if name not in surface_settings()]
        file = read_file(data, source, environment, flags)
    except SurfaceProblem as problem:
        raise SettingsProblem([str(problem)]) from None
    except SettingsProblem as problem:
        raise SettingsProblem([*problems, *problem.lines]) from None
    if problems:
        raise SettingsProblem(problems)
    file = pick_surfaces(file, wanted)
    if not file.blocks:
        raise SettingsProblem(
            [f"{source}: no surface is switched on (surfaces: {{profiles: {{}}}} or --surfaces profiles)"]
        )
    made = _settings(file)
    return msgspec.structs.replace(made, file=source, flags=tuple(flags.items()), surfaces=surfaces)


def no_surface(name: str) -> str:
    """Return the error message for an unknown surface."""
    return f"there is no surface {name!r} (there are: {', '.join(surface_settings())})"


def _settings(file: File) -> Settings:
    lease = Lease(file.leader.lease, file.namespace, outside=HOME_NAMESPACE) if file.leader.elect else None
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
        log_format=file.log.format,
        log_level=LEVELS[file.log.level],
        blocks=file.blocks,
        pod_rules=_pod_rules(file.drain),
    )


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
    """Return the file with just the surfaces of `--surfaces a,b`, with their blocks or without."""
    if not names:
        return file
    chosen = {name: file.blocks.get(name) or surface_settings()[name]() for name in names}
    return msgspec.structs.replace(file, surfaces=surfaces_block()(**chosen))


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._places: dict[tuple[str, ...], Place] = {}
        self.origins: dict[tuple[str, ...], str] = {}
        self._problems: dict[tuple[str, ...], tuple[Place, str]] = {}

    def problems(self) -> list[str]:
        """Return the problems from top to bottom; what does not stand in the file comes first."""
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
        fields = {field.encode_name: split(field.type)[0] for field in msgspec.structs.fields(kind)}
        plain: dict[str, Any] = {}
        for name, value in node.entries.items():
            inner = (*path, name)
            self._places[inner] = node.keys.get(name, value.place)
            if name in node.earlier:
                self._wrong(inner, f"stands in line {node.earlier[name].line} already", "keep one of them")
            if name not in fields:
                near = difflib.get_close_matches(name, fields, 1)
                right = f"did you mean {near[0]}?" if near else f"known are: {', '.join(fields)}"
                self._wrong(inner, "unknown setting", right)
            elif (item := _item(fields[name])) is not None:
                plain[name] = self._sequence(item, value, inner)
            elif (struct := _inner(fields[name])) is not None:
                plain[name] = self.block(struct, value, inner)
            elif not yaml.is_null(value):
                plain[name] = self._scalar(fields[name], value, inner)
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
        """Return the values as typed, after the checks that types do not express."""
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
        for number, rule in enumerate(file.drain.rules):
            if (path := ("drain", "rules", str(number))) not in self._problems:
                self._check_rule(rule, path)
        return file

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

    def _check_word(self, word: str, known: Sequence[str], path: tuple[str, ...]) -> None:
        if word not in known:
            self._wrong(path, f"{word!r} is not known here", f"one of {', '.join(known)}")

    def _check(self, check: Callable[[Any], object], value: Any, path: tuple[str, ...], right: str) -> None:
        try:
            check(value)
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
            inner = (*path, field.encode_name)
            if field.encode_name in plain:
                values[field.name] = self._value(field.type, plain[field.encode_name], inner)
            elif _item(split(field.type)[0]) is None:
                # A default that is not right is one that has to be given, such as a namespace.
                self._check_setting(split(field.type)[1], field.default, inner)
        return kind(**values)

    def _value(self, annotation: Any, value: Any, path: tuple[str, ...]) -> Any:
        kind, setting = split(annotation)
        struct, item = _inner(kind), _item(kind)
        if item is not None:
            found = tuple(self._items(item, value, path))
            for number, each in enumerate(found):
                self._check_setting(setting, each, (*path, str(number)))
            return found
        if struct is not None:
            return self._struct(struct, value, path)
        made = self._typed(kind, value, path, setting)
        self._check_setting(setting, made, path)
        return made

    def _typed(self, kind: Any, value: Any, path: tuple[str, ...], setting: Setting) -> Any:
        if kind is int:
            return self._integer(value, path)
        if kind is timedelta:
            return self._duration(value, path, setting)
        if kind is bool and isinstance(value, str):
            if value.lower() not in ("true", "false"):
                self._wrong(path, f"{value!r} is neither true nor false", "true or false")
            return value.lower() == "true"
        return value

    def _check_setting(self, setting: Setting, value: Any, path: tuple[str, ...]) -> None:
        if setting.words:
            self._check_word(value, setting.words, path)
        if setting.check is not None:
            self._check(setting.check, value, path, setting.right)

    def _items(self, item: Any, value: Any, path: tuple[str, ...]) -> Iterator[Any]:
        """Yield the entries of a list. A text from a flag or the environment is a list with commas."""
        entries = [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value
        for number, each in enumerate(entries):
            if isinstance(item, type) and issubclass(item, msgspec.Struct):
                if isinstance(each, dict):
                    yield self._struct(item, each, (*path, str(number)))
                else:
                    self._wrong(path, "rules can be given in the file alone", "write them there")
            else:
                yield each

    def _duration(self, value: str, path: tuple[str, ...], setting: Setting) -> timedelta:
        try:
            return duration.parse(value)
        except ValueError as error:
            self._wrong(path, str(error), setting.right)
            return timedelta()

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


def _moment(text: str) -> None:
    if not timedelta() < duration.parse(text) <= LONGEST_REQUEST_FOR:
        raise ValueError(f"{text!r} is no time for a request")


def _inner(kind: Any) -> type[msgspec.Struct] | None:
    """Return the struct in `Struct` or `Struct | None`."""
    for each in (kind, *typing.get_args(kind)):
        if each is msgspec.Struct:
            return surfaces_block()
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            return each
    return None


def _item(kind: Any) -> Any:
    """Return what a list is of, in `tuple[Item, ...]`."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None


def _overrides(environment: Mapping[str, str], flags: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    paths = environment_names()
    for name, text in environment.items():
        # Variables that name no setting are not ours to judge: a Service called haulout makes some.
        if name.startswith(ENVIRONMENT_PREFIX) and name in paths:
            yield paths[name], text, name
    for dotted, text in flags.items():
        yield tuple(dotted.split(".")), text, f"--{dotted.replace('.', '-')}"


@cache
def environment_names() -> dict[str, tuple[str, ...]]:
    """Return the path of each setting by the name of its variable in the environment."""
    return dict(_paths(File, ()))


def _paths(kind: type[Any], path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for field in msgspec.structs.fields(kind):
        inner = (*path, field.encode_name)
        annotated, _ = split(field.type)
        struct = _inner(annotated)
        if _item(annotated) is None and struct is not None:
            yield from _paths(struct, inner)
        else:
            yield ENVIRONMENT_PREFIX + "__".join(_upper_snake(part) for part in inner), inner


def _upper_snake(name: str) -> str:
    """Return a name in capitals: `honorClusterAPILabel` is HONOR_CLUSTER_API_LABEL."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).upper()


def _put(plain: dict[str, Any], path: tuple[str, ...], value: str) -> None:
    for part in path[:-1]:
        plain = plain.setdefault(part, {})
    plain[path[-1]] = value
