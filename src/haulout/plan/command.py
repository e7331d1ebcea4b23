"""`haulout plan`: reads what there is, simulates it, prints what comes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import msgspec

from haulout.base import yaml
from haulout.base.collector import without_collector
from haulout.base.duration import to_text
from haulout.base.selector import SelectorError, parse
from haulout.core.budgets.decisions import BUDGETS
from haulout.core.declaration import Declaration
from haulout.core.planned import PlannedObjects, Schedule
from haulout.core.surface import Surface
from haulout.embedded import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NODES,
    PODS,
    STATEFUL_SETS,
    UNMANAGED,
    Json,
    Resource,
)
from haulout.explain.home import home_endpoint
from haulout.explain.setup import Setup, read_setup, setup_of
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import KubeError
from haulout.plan.bodies import in_cluster, in_file
from haulout.plan.chart import svg_chart
from haulout.plan.courses import Forecast
from haulout.plan.forecast import SETTLING_FOR, Done, Simulation, planned_resource
from haulout.plan.output import Gaps, as_json, as_text
from haulout.plan.progress import progress_bar
from haulout.plan.windows import timetables
from haulout.runtime.interruption import run_command
from haulout.settings.settings import PlanSettings
from haulout.surfaces.registry import declared, definition, load, surface

# A pod that ends by itself, beside all others, which follow from their owners.
FINITE_POD = "FinitePod"
EXITS_AFTER = "simulate.haulout.dev/exits-after"
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
    "managedFields",
    "ownerReferences",
    "selfLink",
)

Objects = list[tuple[Resource, Json]]


def plan(settings: PlanSettings) -> int:
    try:
        is_live = not settings.nodes and not settings.snapshot
        endpoint = home_endpoint(dict(settings.cluster), settings.config) if is_live else None
        setup = _setup(settings, endpoint)
        gaps = Gaps([*setup.unread])
        objects = _objects(settings, setup, gaps, endpoint)
        forecast = _simulated(settings, setup, objects, gaps.lacks)
        if settings.svg:
            _draw(forecast, settings.svg)
    except KubeError as error:
        click.echo(f"Error: the cluster cannot be read: {error}", err=True)
        return 1
    except click.ClickException as error:
        error.show()
        return 1
    lines = (
        [as_json(forecast, gaps, setup.origin)]
        if settings.output == "json"
        else [*as_text(forecast, gaps), f"settings: {setup.origin}"]
    )
    for line in lines:
        click.echo(line)
    return 0


def _setup(settings: PlanSettings, endpoint: Endpoint | None) -> Setup:
    """Return the surfaces that the configuration switches on, with what of their options a plan can follow.

    `endpoint`: the cluster to plan for; None where its nodes are made up or come from a file.
    """
    setup = (
        read_setup(settings.config, settings.surfaces)
        if endpoint is None
        else setup_of(settings.config, endpoint, settings.surfaces)
    )
    enabled = tuple(
        msgspec.structs.replace(each, options=each.declaration.planned_options(each.options)) for each in setup.enabled
    )
    setup = msgspec.structs.replace(setup, enabled=enabled)
    if settings.maintain and not _planned(setup):
        raise click.ClickException(
            "--maintain makes NodeMaintenances or NotifyMaintenances: switch on nodemaintenance or notify (--surfaces)"
        )
    for name, text in settings.node_labels.items():
        _check_label(setup, surface(name), text, settings.config)
    return setup


def _check_label(setup: Setup, declared: Surface, text: str, config: str) -> None:
    """Refuse the value of a label by which nodes are put under a surface, where it names what is not configured."""
    label, options = declared.node_label, setup.options(declared.name)
    assert label is not None
    known = load(label.known)(options) if options else ()
    unknown = [name for name in load(label.names)(text) if name not in known]
    if unknown:
        names = ", ".join(known) or "none"
        raise click.ClickException(f"{config}: there is no {label.option} {unknown[0]!r} (there are: {names})")


def _labels(settings: PlanSettings) -> dict[str, str]:
    labels = {name: surface(name).node_label for name in settings.node_labels}
    return {label.label: settings.node_labels[name] for name, label in labels.items() if label is not None}


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


def _begins_at(settings: PlanSettings) -> datetime:
    at = datetime.fromisoformat(settings.at).astimezone(UTC) if settings.at else datetime.now(UTC)
    return at.replace(microsecond=0)


def _draw(forecast: Forecast, path: str) -> None:
    try:
        Path(path).write_text(svg_chart(forecast))
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None


def _simulated(settings: PlanSettings, setup: Setup, objects: Objects, lacks: list[str]) -> Forecast:
    begins_at = _begins_at(settings)
    done = [Done(state, timedelta(seconds=seconds), label, value) for state, seconds, label, value in settings.after]
    with without_collector(), progress_bar() as on_progress:
        simulation = Simulation(
            setup.enabled,
            objects,
            begins_at=begins_at,
            together=setup.together,
            done=done,
            work_for=timedelta(seconds=settings.work_for),
            seed=settings.seed,
            on_problem=lacks.append,
            on_progress=on_progress,
        )
        forecast = simulation.run(timedelta(days=settings.days))
    return msgspec.structs.replace(
        forecast, timetables=timetables(_schedules(setup, objects), forecast.begins_at, forecast.ends_at)
    )


def _schedules(setup: Setup, objects: Objects) -> Iterator[Schedule]:
    """Yield the schedules that something in the plan keeps to. Budgets count where surfaces run together."""
    bodies = [body for _, body in objects]
    for each in setup.enabled:
        yield from each.declaration.planned_schedules(each.options, bodies)
    if setup.together:
        yield from BUDGETS.planned_schedules(None, bodies)


# What there is


def _objects(settings: PlanSettings, setup: Setup, gaps: Gaps, endpoint: Endpoint | None) -> Objects:
    """Return the objects to plan with. What could not be taken into account is added to `gaps`."""
    made_up = list(_made_up(settings.nodes, settings.zones))
    found = made_up if settings.nodes else _read(settings, setup, gaps, endpoint)
    nodes = [body for resource, body in found if resource == NODES]
    if not nodes:
        raise click.ClickException("there are no nodes to plan for (--nodes N makes some up)")
    wanted = dict(settings.labels) | _labels(settings)
    for body in nodes:
        body["metadata"]["labels"] = {**body["metadata"].get("labels", {}), **wanted}
    for resource, planned in _planned(setup)[:1]:
        found += [(resource, planned.make(name)) for name in _maintained(settings.maintain, nodes)]
    return [*_ground(setup, found), *found]


def _read(settings: PlanSettings, setup: Setup, gaps: Gaps, endpoint: Endpoint | None) -> Objects:
    """Return the objects of a snapshot or a cluster, as a plan begins with them."""
    custom = _custom(setup)
    kinds = {**TAKEN, **custom}
    wants_pods = any(each.declaration.planned_pods is not None for each in setup.enabled)
    if endpoint is None:
        bodies = in_file(settings.snapshot)
        found = {body.get("kind") for body in bodies}
        gaps.not_in_snapshot += [f"{each.plural}.{each.group}" for kind, each in custom.items() if kind not in found]
    else:
        read = {**kinds, **({"Pod": PODS} if wants_pods else {})}
        bodies = run_command(in_cluster(endpoint, read, frozenset(custom), gaps))
    pods = [body for body in bodies if body.get("kind") == "Pod"]
    return _ordered([*bodies, *_finite_pods(setup, pods, _begins_at(settings))], {**kinds, FINITE_POD: PODS})


def _finite_pods(setup: Setup, pods: list[Json], now: datetime) -> Iterator[Json]:
    """Yield the pods that end by themselves, with the time at which they do in the plan."""
    finite = [body for body in pods if (body.get("spec") or {}).get("restartPolicy", "Always") != "Always"]
    for each in setup.enabled:
        made = each.declaration.planned_pods
        for body, left_out in made(each.options, finite, now) if made is not None else ():
            notes = {**body["metadata"].get("annotations", {}), EXITS_AFTER: to_text(left_out + SETTLING_FOR)}
            yield {**body, "kind": FINITE_POD, "metadata": {**body["metadata"], "annotations": notes}}


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
    """Return the nodes that `--maintain` means: by name where all are known, else as a label selector."""
    names = [body["metadata"]["name"] for body in nodes]
    listed = [word.strip().removeprefix("node/") for word in wanted.split(",") if word.strip()]
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


def _ordered(bodies: list[Json], taken: Mapping[str, Resource]) -> Objects:
    """Return the objects as they would be created, namespaces first."""
    found = [(taken[body["kind"]], _fresh(body)) for body in bodies if body.get("kind") in taken]
    places = {body["metadata"].get("namespace", "") for _, body in found} - {""}
    known = {body["metadata"]["name"] for resource, body in found if resource == NAMESPACES}
    missing = [(NAMESPACES, {"metadata": {"name": name}}) for name in sorted(places - known)]
    order = list(taken.values())
    own = ("default", "kube-system", "kube-public", "kube-node-lease")
    made = [each for each in (*missing, *found) if each[0] != NAMESPACES or each[1]["metadata"]["name"] not in own]
    return sorted(made, key=lambda each: (each[0] != NAMESPACES, order.index(each[0])))


def _fresh(body: Json) -> Json:
    metadata = {name: value for name, value in body.get("metadata", {}).items() if name not in MADE_BY_SERVER}
    if not _is_instant(metadata.get("creationTimestamp")):
        metadata.pop("creationTimestamp", None)
    # The status of a custom kind is its surface's to take (`Declaration.planned_object`).
    kept = {name: value for name, value in body.items() if name != "status" or body.get("kind") not in TAKEN}
    if body.get("kind") == FINITE_POD:
        kept["kind"] = "Pod"
    if body.get("kind") == "Node":
        if not _is_ready(body):
            # Without a simulated kubelet the node stays out of service, and counts as such.
            metadata["annotations"] = {**(metadata.get("annotations") or {}), UNMANAGED: "not ready in the snapshot"}
        kept["spec"] = {name: value for name, value in (body.get("spec") or {}).items() if name != "podCIDRs"}
    return {**kept, "metadata": metadata}


def _is_instant(text: object) -> bool:
    try:
        return datetime.fromisoformat(str(text)).tzinfo is not None
    except ValueError:
        return False


def _is_ready(node: Json) -> bool:
    """Whether a node is in service. One that says nothing of it was made up, and counts as ready."""
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = [each.get("status") for each in conditions if isinstance(each, dict) and each.get("type") == "Ready"]
    return ready in ([], ["True"])
