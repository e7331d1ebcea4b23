"""Reads `haulout.yaml` strictly, and reports all errors at once, each with its place and what would be right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from haulout.base import duration, yaml
from haulout.base.yaml import YamlError
from haulout.settings.blocks import DrainBlock, File, surface_settings, surfaces_block
from haulout.settings.environment import ENVIRONMENT_PREFIX, environment_names
from haulout.settings.file_reader import LEVELS, FileReader
from haulout.settings.settings import Lease, Logbook, PodRule, PodRules, Settings, Traces, Webhooks
from haulout.surfaces.registry import SurfaceProblem

HOME_NAMESPACE = "haulout-system"


class SettingsProblem(Exception):
    """The settings are invalid. The message has a line for each error."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def read_file(data: bytes, source: str, environment: Mapping[str, str], flags: Mapping[str, str]) -> File:
    """Read `haulout.yaml`. Raises SettingsProblem.

    Flags win over the environment, which wins over the file. The keys of `flags` are paths such as `log.level`.
    """
    try:
        tree = yaml.parse(data) if data else None
        second_document = yaml.second_document(data) if data else None
    except YamlError as error:
        place = f":{error.place.line}:{error.place.column}" if error.place else ""
        raise SettingsProblem([f"{source}{place}: {error.problem}"]) from None
    reader = FileReader(source, tree)
    for path, text, origin in _overrides(environment, flags):
        reader.override(path, text, origin)
    file = reader.file()
    if problems := reader.problems(second_document):
        raise SettingsProblem(problems)
    return file


def read_settings(
    data: bytes, source: str, environment: Mapping[str, str], flags: Mapping[str, str], surfaces: str
) -> Settings:
    """Return the settings of a process. Raises SettingsProblem.

    `surfaces`: the names of the surfaces to serve, with commas; empty: those that the file switches on.
    """
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


def names_surfaces(surfaces: str, environment: Mapping[str, str]) -> bool:
    """Whether `--surfaces` or the environment switches surfaces on, so that a process needs no file."""
    return bool(surfaces) or any(name.startswith(f"{ENVIRONMENT_PREFIX}SURFACES") for name in environment)


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
        logbook=Logbook(
            people=file.logbook.people,
            keeps_for=file.logbook.retention.age,
            most=file.logbook.retention.records,
        ),
        traces=Traces(
            endpoint=file.traces.endpoint,
            percent=file.traces.sample_percent if file.traces.enabled else 0,
            slow_for=file.traces.slow_eviction,
        ),
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
    """Return the file with only the named surfaces switched on. Those without a block get their defaults."""
    if not names:
        return file
    chosen = {name: file.blocks.get(name) or surface_settings()[name]() for name in names}
    return msgspec.structs.replace(file, surfaces=surfaces_block()(**chosen))


def _overrides(environment: Mapping[str, str], flags: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    paths = environment_names()
    for name, text in environment.items():
        # Other variables with the prefix are ignored: Kubernetes sets some for a Service called haulout.
        if name.startswith(ENVIRONMENT_PREFIX) and name in paths:
            yield paths[name], text, name
    for dotted, text in flags.items():
        yield tuple(dotted.split(".")), text, f"--{dotted.replace('.', '-')}"
