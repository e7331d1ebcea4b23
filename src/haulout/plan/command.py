"""`haulout plan`: reads what there is, simulates it, prints what comes of it."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from haulout.base import yaml
from haulout.base.clock import SystemClock
from haulout.base.selector import SelectorError, parse
from haulout.core.budgets.decisions import BUDGETS
from haulout.core.declaration import Declaration
from haulout.core.planned import PlannedObjects
from haulout.embedded import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NODES,
    STATEFUL_SETS,
    UNMANAGED,
    Json,
    Resource,
)
from haulout.explain.setup import Setup, read_setup
from haulout.explain.snapshot import endpoint_of
from haulout.kube.errors import Forbidden, KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.model.meta import wire_micro_time
from haulout.plan.chart import svg_chart, text_chart
from haulout.plan.collector import without_collector
from haulout.plan.forecast import Done, Forecast, Simulation, planned_resource
from haulout.plan.progress import progress_bar
from haulout.settings.settings import PlanSettings
from haulout.surfaces.profiles.wire import PROFILE_LABEL, attached_profiles
from haulout.surfaces.registry import declared, definition

ZONE = "topology.kubernetes.io/zone"
NAMESPACES = Resource("", "v1", "namespaces")
# What a plan takes along; pods follow from their owners.
TAKEN = {
    "Node": NODES,
    "Namespace": NAMESPACES,
    "Deployment": DEPLOYMENTS,
    "StatefulSet": STATEFUL_SETS,
    "DaemonSet": DAEMON_SETS,
    "PodDisruptionBudget": DISRUPTION_BUDGETS,
}
MADE_BY_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "ownerReferences",
    "selfLink",
)
LIST_WITHIN = 30.0
MOST_SHOWN = 5

Objects = list[tuple[Resource, Json]]


def plan(settings: PlanSettings) -> int:
    try:
        setup = _setup(settings)
        lacks: list[str] = []
        objects = _objects(settings, setup, lacks)
        forecast = _simulated(settings, setup, objects, lacks)
        if settings.svg:
            _draw(forecast, settings.svg)
    except click.ClickException as error:
        error.show()
        return 1
    lines = [_json(forecast, lacks)] if settings.output == "json" else [*_incomplete(lacks), *_text(forecast)]
    for line in lines:
        click.echo(line)
    return 0


def _setup(settings: PlanSettings) -> Setup:
    """The surfaces that the configuration switches on, with what of their options a plan can follow."""
    setup = read_setup(settings.config, settings.surfaces)
    enabled = tuple(
        msgspec.structs.replace(each, options=each.declaration.planned_options(each.options)) for each in setup.enabled
    )
    setup = msgspec.structs.replace(setup, enabled=enabled)
    if settings.maintain and not _planned(setup):
        raise click.ClickException("--maintain makes NodeMaintenances: switch on nodemaintenance (--surfaces)")
    profiles = setup.options("profiles")
    known = profiles.config.profiles if profiles else {}
    unknown = [name for name in attached_profiles(settings.profile) if name not in known]
    if settings.profile and unknown:
        names = ", ".join(sorted(known)) or "none"
        raise click.ClickException(f"{settings.config}: there is no profile {unknown[0]!r} (there are: {names})")
    return setup


def _planned(setup: Setup) -> list[tuple[Resource, PlannedObjects]]:
    """Return the objects by which maintenance of a node can be asked for, those of the first surface first."""
    found = [(each.declaration, each.declaration.planned_objects) for each in setup.enabled]
    return [(_own_kinds(declaration)[planned.kind], planned) for declaration, planned in found if planned is not None]


def _own_kinds(declaration: Declaration) -> dict[str, Resource]:
    """Return the kinds of a surface that it brings definitions of."""
    definitions = {name for each in declared() for name in each.crds}
    return {kind.kind: planned_resource(kind) for kind in declaration.kinds if kind.plural in definitions}


def _custom(setup: Setup) -> dict[str, Resource]:
    """Return the custom kinds that a plan takes along: budgets, and those of the surfaces."""
    declarations = [*(each.declaration for each in setup.enabled), BUDGETS]
    return {kind: resource for each in declarations for kind, resource in _own_kinds(each).items()}


def _draw(forecast: Forecast, path: str) -> None:
    try:
        Path(path).write_text(svg_chart(forecast))
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None


def _simulated(settings: PlanSettings, setup: Setup, objects: Objects, lacks: list[str]) -> Forecast:
    begins_at = datetime.fromisoformat(settings.at).astimezone(UTC) if settings.at else datetime.now(UTC)
    done = [Done(state, timedelta(seconds=seconds), label, value) for state, seconds, label, value in settings.after]
    with without_collector(), progress_bar() as on_progress:
        simulation = Simulation(
            setup.enabled,
            objects,
            begins_at=begins_at.replace(microsecond=0),
            together=setup.together,
            done=done,
            work_for=timedelta(seconds=settings.work_for),
            seed=settings.seed,
            on_problem=lacks.append,
            on_progress=on_progress,
        )
        return simulation.run(timedelta(days=settings.days))


# What there is


def _objects(settings: PlanSettings, setup: Setup, lacks: list[str]) -> Objects:
    """The objects to plan with. What could not be taken into account is added to `lacks`, a line each."""
    if settings.nodes:
        found = list(_made_up(settings.nodes, settings.zones))
    elif settings.snapshot:
        found = _snapshot(settings.snapshot, {**TAKEN, **_custom(setup)})
    else:
        found = asyncio.run(_live(dict(settings.cluster), lacks, _custom(setup)))
    nodes = [body for resource, body in found if resource == NODES]
    if not nodes:
        raise click.ClickException("there are no nodes to plan for (--nodes N makes some up)")
    wanted = dict(settings.labels) | ({PROFILE_LABEL: settings.profile} if settings.profile else {})
    for body in nodes:
        body["metadata"]["labels"] = {**body["metadata"].get("labels", {}), **wanted}
    for resource, planned in _planned(setup)[:1]:
        found += [(resource, planned.make(name)) for name in _maintained(settings.maintain, nodes)]
    return [*_ground(setup, found), *found]


def _ground(setup: Setup, found: Objects) -> Iterator[tuple[Resource, Json]]:
    """Yield the definitions and namespaces that the surfaces need, before what is made of them."""
    custom = _custom(setup)
    found_kinds = {resource for resource, _ in found}
    own = {resource for each in setup.enabled for resource in _own_kinds(each.declaration).values()}
    budgets = set(_own_kinds(BUDGETS).values()) if setup.together else set()
    wanted = {resource.plural for resource in custom.values() if resource in found_kinds | own | budgets}
    for name in sorted(wanted):
        yield CUSTOM_RESOURCE_DEFINITIONS, yaml.load(definition(name))
    known = {body["metadata"]["name"] for resource, body in found if resource == NAMESPACES}
    for name in sorted(set(_namespaces(setup)) - known):
        yield NAMESPACES, {"metadata": {"name": name}}


def _namespaces(setup: Setup) -> Iterator[str]:
    """Yield the namespaces that surfaces need."""
    for each in declared():
        options = setup.options(each.name)
        if options is not None:
            yield from (getattr(options, _field(name.setting)) for name in each.names if name.is_namespace)


def _field(setting: str) -> str:
    """Return the field of a surface's options that a setting becomes, as lease_namespace for `...leaseNamespace`."""
    return re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", setting.rpartition(".")[2])


def _maintained(wanted: str, nodes: list[Json]) -> list[str]:
    """The nodes that `--maintain` means: by name where all are known, else as a label selector."""
    names = [body["metadata"]["name"] for body in nodes]
    listed = [word.strip() for word in wanted.split(",") if word.strip()]
    if not set(listed) - set(names):
        return listed
    try:
        selector = parse(wanted)
    except SelectorError as error:
        raise click.ClickException(f"--maintain: {wanted!r} names neither nodes nor labels: {error}") from None
    found = [body["metadata"]["name"] for body in nodes if selector.matches(body["metadata"].get("labels", {}))]
    if not found:
        raise click.ClickException(f"--maintain: no node is named or labelled {wanted!r}")
    return found


def _made_up(count: int, zones: int) -> Iterator[tuple[Resource, Json]]:
    for number in range(count):
        name = f"node-{number + 1:0{len(str(count))}}"
        labels = {"kubernetes.io/hostname": name, ZONE: f"zone-{number % zones + 1}"}
        yield NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def _snapshot(path: str, taken: Mapping[str, Resource]) -> Objects:
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        documents = [document for document in _documents(data) if isinstance(document, dict)]
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    except yaml.YamlError as error:
        raise click.ClickException(f"{path} is not YAML: {error}") from None
    bodies = [body for document in documents for body in document.get("items", [document])]
    return _ordered([body for body in bodies if isinstance(body, dict)], taken)


def _documents(data: bytes) -> list[Any]:
    """Return what YAML or JSON holds. JSON is YAML, too, but is read far faster as what it is."""
    try:
        return [msgspec.json.decode(data)]
    except (msgspec.DecodeError, RecursionError):
        return yaml.load_all(data, bounds=yaml.SNAPSHOT)


async def _live(cluster: dict[str, Any], lacks: list[str], custom: Mapping[str, Resource]) -> Objects:
    endpoint = endpoint_of(cluster)
    transport = HttpTransport(endpoint, SystemClock())
    bodies: list[Json] = []
    try:
        async with asyncio.timeout(LIST_WITHIN):
            for kind, resource in {**TAKEN, **custom}.items():
                bodies += await _listed(transport, kind, resource, lacks, optional=kind in custom)
    except TimeoutError:
        raise click.ClickException(f"{endpoint.server} did not list its objects within {LIST_WITHIN:g} s") from None
    except KubeError as error:
        raise click.ClickException(f"{endpoint.server} cannot be read: {error}") from None
    finally:
        await transport.close()
    return _ordered(bodies, {**TAKEN, **custom})


async def _listed(
    transport: HttpTransport, kind: str, resource: Resource, lacks: list[str], *, optional: bool
) -> list[Json]:
    group = f"/apis/{resource.group}" if resource.group else "/api"
    try:
        kept: Any = dict[str, Any]
        bodies: list[Any] = await read_list(transport, f"{group}/{resource.version}/{resource.plural}", kept)
    except Forbidden as error:
        if kind == "Node":
            raise
        lacks.append(f"{resource.plural} cannot be read: {error}")
        return []
    except NotFound:
        # Custom resources need not be installed: then there are none.
        if not optional:
            raise
        return []
    return [{**body, "kind": kind} for body in bodies]


def _ordered(bodies: list[Json], taken: Mapping[str, Resource]) -> Objects:
    """Return the objects as they would be created, namespaces first."""
    found = [(taken[body["kind"]], _fresh(body)) for body in bodies if body.get("kind") in taken]
    places = {body["metadata"].get("namespace", "") for _, body in found} - {""}
    known = {body["metadata"]["name"] for resource, body in found if resource == NAMESPACES}
    missing = [(NAMESPACES, {"metadata": {"name": name}}) for name in sorted(places - known)]
    order = list(taken.values())
    own = ("default", "kube-system", "kube-public", "kube-node-lease")
    kept = [each for each in (*missing, *found) if each[0] != NAMESPACES or each[1]["metadata"]["name"] not in own]
    return sorted(kept, key=lambda each: (each[0] != NAMESPACES, order.index(each[0])))


def _fresh(body: Json) -> Json:
    metadata = {name: value for name, value in body.get("metadata", {}).items() if name not in MADE_BY_SERVER}
    kept = {name: value for name, value in body.items() if name != "status"}
    if body.get("kind") == "Node":
        if not _is_ready(body):
            # Without a simulated kubelet the node stays out of service, and counts as such.
            metadata["annotations"] = {**(metadata.get("annotations") or {}), UNMANAGED: "not ready in the snapshot"}
        kept["spec"] = {name: value for name, value in (body.get("spec") or {}).items() if name != "podCIDRs"}
    return {**kept, "metadata": metadata}


def _is_ready(node: Json) -> bool:
    """Whether a node is in service. One that says nothing of it was made up, and counts as ready."""
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = [each.get("status") for each in conditions if isinstance(each, dict) and each.get("type") == "Ready"]
    return ready in ([], ["True"])


# What comes of it


def _incomplete(lacks: list[str]) -> Iterator[str]:
    if lacks:
        yield (
            f"INCOMPLETE: {len(lacks)} things could not be taken into account:"
            if len(lacks) > 1
            else ("INCOMPLETE: one thing could not be taken into account:")
        )
        yield from (f"  {text}" for text in lacks)


def _text(forecast: Forecast) -> Iterator[str]:
    going = [course for course in forecast.courses if course.goes]
    if not going:
        yield f"None of {len(forecast.courses)} nodes leaves operational until {_shown(forecast.ends_at)}."
        return
    yield from text_chart(forecast)
    yield ""
    stuck = [course for course in going if course.returns_at is None]
    finished = forecast.finished_at
    back = len(going) - len(stuck)
    yield f"{back} of {len(going)} nodes go and come back" + (f", the last {_shown(finished)}" if finished else "")
    for course in stuck[:MOST_SHOWN]:
        yield f"  {course.node} is {course.spans[-1].state} until the end: {course.waits_for}"
    if len(stuck) > MOST_SHOWN:
        yield f"  and {len(stuck) - MOST_SHOWN} more"
    if forecast.kept:
        yield "waited for, all nodes together:"
        for text, span in forecast.kept[:MOST_SHOWN]:
            yield f"  {_span(span)}: {text}"


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _span(span: timedelta) -> str:
    hours, seconds = divmod(int(span.total_seconds()), 3600)
    return f"{hours} h {seconds // 60} min" if hours else f"{seconds // 60} min {seconds % 60} s"


def _json(forecast: Forecast, lacks: list[str]) -> str:
    body = {
        "incomplete": lacks,
        "beginsAt": wire_micro_time(forecast.begins_at),
        "endsAt": wire_micro_time(forecast.ends_at),
        "finishedAt": wire_micro_time(forecast.finished_at) if forecast.finished_at else None,
        "waitedFor": [{"seconds": int(span.total_seconds()), "cause": text} for text, span in forecast.kept],
        "nodes": [
            {
                "name": course.node,
                "states": [
                    {
                        "state": span.state,
                        "from": wire_micro_time(span.begins_at),
                        "to": wire_micro_time(span.ends_at) if span.ends_at else None,
                    }
                    for span in course.spans
                ],
                "waitsFor": course.waits_for,
            }
            for course in forecast.courses
        ],
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
