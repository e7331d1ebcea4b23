"""`haulout plan`: reads the objects and settings, runs the simulation, and prints the forecast."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import msgspec

from haulout.base import yaml
from haulout.base.clock import SystemClock
from haulout.base.collector import without_collector
from haulout.base.duration import to_text
from haulout.base.selector import SelectorError, parse
from haulout.base.visible import page
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
    REPLICA_SETS,
    STATEFUL_SETS,
    UNMANAGED,
    Json,
    Resource,
)
from haulout.explain.home import home_endpoint
from haulout.explain.operators import OperatorState, operator_lines, operator_state
from haulout.explain.setup import Setup, declaration_of, read_setup, setup_of
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from haulout.plan.bodies import in_cluster, in_file, is_quorum_kept_in_cluster, pods_in_cluster
from haulout.plan.chart import svg_chart
from haulout.plan.courses import Forecast
from haulout.plan.document import Document
from haulout.plan.forecast import SETTLING_FOR, Done, Simulation, planned_resource
from haulout.plan.output import Gaps, as_document, as_json, as_text
from haulout.plan.pods import FoundPod, PodChoice, found_pods, owner_key
from haulout.plan.progress import OnProgress, progress_bar
from haulout.plan.windows import timetables
from haulout.runtime.interruption import run_command
from haulout.settings.settings import PlanSettings
from haulout.surfaces.registry import all_declarations, definition, load, surface, surfaces

EXITS_AFTER = "simulate.haulout.dev/exits-after"
ZONE = "topology.kubernetes.io/zone"
NAMESPACES = Resource("", "v1", "namespaces")
# The built-in kinds that a plan reads. The plan makes pods from their owners, but for those that `PodChoice` takes along.
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

NOTHING_COMES = "nothing of this plan happens until one runs"

Objects = list[tuple[Resource, Json]]


def plan(settings: PlanSettings) -> int:
    try:
        is_live = not settings.nodes and not settings.snapshot
        endpoint = home_endpoint(dict(settings.cluster), settings.config) if is_live else None
        setup = _setup(settings, endpoint)
        gaps = Gaps([*setup.unread])
        operator = run_command(_operator(setup, endpoint)) if endpoint is not None else None
        objects = _objects(settings, setup, gaps, endpoint)
        with progress_bar() as on_progress:
            forecast = _simulated(settings, setup, objects, gaps.lacks, on_progress)
        if settings.svg:
            _draw(forecast, settings.svg)
    except KubeError as error:
        click.echo(f"Error: the cluster cannot be read: {error}", err=True)
        return 1
    except click.ClickException as error:
        error.show()
        return 1
    firsts = operator_lines(operator, datetime.now(UTC), NOTHING_COMES) if operator is not None else []
    text = page([*firsts, *as_text(forecast, gaps), f"settings: {setup.origin}"])
    click.echo(as_json(forecast, gaps, setup.origin, operator) if settings.output == "json" else text)
    return 0


async def _operator(setup: Setup, endpoint: Endpoint) -> OperatorState:
    transport = HttpTransport(endpoint, SystemClock())
    try:
        return await operator_state(setup, transport, SystemClock().now)
    finally:
        await transport.close()


def planned_document(
    settings: PlanSettings, change: Callable[[Objects, Mapping[str, Resource]], Objects], on_progress: OnProgress
) -> Document:
    """Return the forecast for a cluster as the document of `plan -o json`. Raises ClickException and KubeError.

    `change`: called with the objects of the cluster and the kinds that a plan reads, returns those that it begins with.
    """
    endpoint = home_endpoint(dict(settings.cluster), settings.config)
    setup = _setup(settings, endpoint)
    gaps = Gaps([*setup.unread])
    objects = change(_objects(settings, setup, gaps, endpoint), {**TAKEN, **_custom(setup)})
    return as_document(_simulated(settings, setup, objects, gaps.lacks, on_progress), gaps, setup.origin)


def _setup(settings: PlanSettings, endpoint: Endpoint | None) -> Setup:
    """Return the surfaces that the configuration switches on, with the options that a plan can simulate.

    `endpoint`: the cluster to plan for; None if the nodes are made up or come from a file.
    """
    setup = (
        read_setup(settings.config, settings.surfaces)
        if endpoint is None
        else setup_of(settings.config, endpoint, settings.surfaces)
    )
    enabled = tuple(
        msgspec.structs.replace(each, options=each.declaration.planned_options(each.options)) for each in setup.enabled
    )
    quorum = setup.quorum if endpoint is None else run_command(is_quorum_kept_in_cluster(endpoint, setup))
    setup = msgspec.structs.replace(setup, enabled=enabled, quorum=quorum)
    if settings.maintain and not _planned(setup):
        able = " or ".join(each.name for each in surfaces() if declaration_of(each).planned_objects is not None)
        raise click.ClickException(f"--maintain makes objects of a surface: switch on {able} (--surfaces)")
    for name, text in settings.node_labels.items():
        _check_label(setup, surface(name), text, settings.config)
    return setup


def _check_label(setup: Setup, declared: Surface, text: str, config: str) -> None:
    """Refuse the value of a surface's node label if it names something, such as a profile, that is not configured."""
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
    """Return the kinds of objects that ask for maintenance of a node, in the order of the surfaces."""
    found = [(each.declaration, each.declaration.planned_objects) for each in setup.enabled]
    return [(_own_kinds(declaration)[planned.kind], planned) for declaration, planned in found if planned is not None]


def _own_kinds(declaration: Declaration) -> dict[str, Resource]:
    """Return the kinds of a surface whose definitions are part of Haulout."""
    definitions = {name for each in all_declarations() for name in each.crds}
    return {kind.kind: planned_resource(kind) for kind in declaration.kinds if kind.plural in definitions}


def _custom(setup: Setup) -> dict[str, Resource]:
    """Return the custom kinds that a plan reads: NodeDisruptionBudgets, and those of the surfaces."""
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


def _simulated(
    settings: PlanSettings, setup: Setup, objects: Objects, lacks: list[str], on_progress: OnProgress
) -> Forecast:
    begins_at = _begins_at(settings)
    done = [Done(state, timedelta(seconds=seconds), label, value) for state, seconds, label, value in settings.after]
    with without_collector():
        simulation = Simulation(
            setup.enabled,
            objects,
            begins_at=begins_at,
            together=setup.together,
            quorum=setup.quorum,
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
    """Yield the schedules of surfaces, and of NodeDisruptionBudgets if surfaces run together."""
    bodies = [body for _, body in objects]
    for each in setup.enabled:
        yield from each.declaration.planned_schedules(each.options, bodies)
    if setup.together:
        yield from BUDGETS.planned_schedules(None, bodies)


# What there is


def _objects(settings: PlanSettings, setup: Setup, gaps: Gaps, endpoint: Endpoint | None) -> Objects:
    """Return the objects that the plan begins with. What could not be read is added to `gaps`."""
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
    """Return the objects of a snapshot or a cluster, as they are created in the plan."""
    custom = _custom(setup)
    kinds = {**TAKEN, **custom}
    if endpoint is None:
        bodies = [_named(body, custom) for body in in_file(settings.snapshot)]
        found = {body.get("kind") for body in bodies}
        gaps.not_in_snapshot += [f"{each.plural}.{each.group}" for kind, each in custom.items() if kind not in found]
        gaps.not_in_snapshot += ["pods"] if "Pod" not in found else []
        choice = _pod_choice(setup, bodies)
        pods = [pod for pod in found_pods(bodies, gaps.lacks.append) if choice.takes(pod)]
    else:
        bodies = run_command(in_cluster(endpoint, kinds, frozenset(custom), gaps))
        choice = _pod_choice(setup, bodies)
        pods = run_command(pods_in_cluster(endpoint, choice.takes, gaps))
    by_surface = _knows_finite_pods(setup)
    finite = [pod for pod in pods if by_surface and pod.is_finite]
    changed, made = choice.adopted([pod for pod in pods if not (by_surface and pod.is_finite)])
    rest = [body for body in bodies if body.get("kind") in kinds and owner_key(body) not in changed]
    running = [*changed.values(), *made, *_finite_pods(setup, finite, _begins_at(settings))]
    return _ordered([*rest, *running], {**kinds, "ReplicaSet": REPLICA_SETS, "Pod": PODS})


def _named(body: Json, custom: Mapping[str, Resource]) -> Json:
    """Return an object of a file with our name of its kind: two groups may call theirs alike."""
    kind, group = str(body.get("kind") or ""), str(body.get("apiVersion") or "").rpartition("/")[0]
    if not kind or getattr(custom.get(kind), "group", group) == group:
        return body
    own = (name for name, resource in custom.items() if resource.group == group and name.endswith(kind))
    return {**body, "kind": next(own, kind)}


def _pod_choice(setup: Setup, bodies: list[Json]) -> PodChoice:
    sources = [source for each in setup.enabled for source in each.sources if source.kind == "Pod"]
    annotations = frozenset(name for source in sources for name in source.keep.annotations)
    return PodChoice(bodies, annotations, _own_pods(setup), finite=_knows_finite_pods(setup))


def _own_pods(setup: Setup) -> Callable[[Json], bool]:
    """Return a function that says whether a surface makes a pod itself: it does so in the plan, too."""
    runs = [each.declaration.planned_runs(()) for each in setup.enabled]
    workers = [planned.worker_of for _, planned in _planned(setup)]
    return lambda pod: any(run(pod) is not None for run in runs) or any(worker_of(pod) for worker_of in workers)


def _knows_finite_pods(setup: Setup) -> bool:
    """Whether a surface knows when pods end that end by themselves."""
    return any(each.declaration.planned_pods is not None for each in setup.enabled)


def _finite_pods(setup: Setup, pods: list[FoundPod], now: datetime) -> Iterator[Json]:
    """Yield the pods that end by themselves, annotated with how long they still run in the plan."""
    finite = [pod.body for pod in pods]
    for each in setup.enabled:
        made = each.declaration.planned_pods
        for body, left_out in made(each.options, finite, now) if made is not None else ():
            notes = {**body["metadata"].get("annotations", {}), EXITS_AFTER: to_text(left_out + SETTLING_FOR)}
            yield {**body, "metadata": {**body["metadata"], "annotations": notes}}


def _ground(setup: Setup, found: Objects) -> Iterator[tuple[Resource, Json]]:
    """Yield the definitions and namespaces that have to exist before other objects are created."""
    custom = _custom(setup)
    found_kinds = {resource for resource, _ in found}
    own = {resource for each in setup.enabled for resource in _own_kinds(each.declaration).values()}
    budgets = set(_own_kinds(BUDGETS).values()) if setup.together else set()
    wanted = {(each.plural, each.group) for each in custom.values() if each in found_kinds | own | budgets}
    for plural, group in sorted(wanted):
        yield CUSTOM_RESOURCE_DEFINITIONS, _definition(plural, group)
    known = {body["metadata"]["name"] for resource, body in found if resource == NAMESPACES}
    for name in sorted(set(_namespaces(setup)) - known):
        yield NAMESPACES, {"metadata": {"name": name}}


def _definition(plural: str, group: str) -> Json:
    """Return the definition of a kind. Definitions of one plural in several groups have their group's word before it."""
    names = (name for each in all_declarations() for name in each.crds if name.endswith(plural))
    found: Iterator[Json] = (yaml.load(definition(name)) for name in names)
    return next(each for each in found if (each["spec"]["group"], each["spec"]["names"]["plural"]) == (group, plural))


def _namespaces(setup: Setup) -> Iterator[str]:
    """Yield the namespaces that surfaces need."""
    for each in all_declarations():
        options = setup.options(each.name)
        if options is not None:
            yield from (getattr(options, _field(name.setting)) for name in each.names if name.is_namespace)


def _field(setting: str) -> str:
    """Return the name of the option that a setting becomes: `lease_namespace` for `...leaseNamespace`."""
    return re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", setting.rpartition(".")[2])


def _maintained(wanted: str, nodes: list[Json]) -> list[str]:
    """Return the nodes that `--maintain` names. If it is not a list of known nodes, it is a label selector."""
    names = [body["metadata"]["name"] for body in nodes]
    listed = [word.strip().removeprefix("node/") for word in wanted.split(",") if word.strip()]
    known = set(names)
    unknown = [name for name in listed if name not in known]
    if not unknown:
        return listed
    if len(unknown) < len(listed):
        raise click.ClickException(f"--maintain: there is no node {' and no node '.join(map(repr, unknown))}")
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
    """Return the objects in the order in which they are created, with missing namespaces first."""
    found = [(taken[body["kind"]], _fresh(body)) for body in bodies if body.get("kind") in taken]
    places = {body["metadata"].get("namespace", "") for _, body in found} - {""}
    known = {body["metadata"]["name"] for resource, body in found if resource == NAMESPACES}
    missing = [(NAMESPACES, {"metadata": {"name": name}}) for name in sorted(places - known)]
    order = list(taken.values())
    own = ("default", "kube-system", "kube-public", "kube-node-lease")
    made = [each for each in (*missing, *found) if each[0] != NAMESPACES or each[1]["metadata"]["name"] not in own]
    return sorted(made, key=lambda each: (each[0] != NAMESPACES, order.index(each[0])))


def _fresh(body: Json) -> Json:
    # The managed fields of a Node say who cordoned it.
    made = {*MADE_BY_SERVER} - ({"managedFields"} if body.get("kind") == "Node" else set())
    metadata = {name: value for name, value in body.get("metadata", {}).items() if name not in made}
    if not _is_instant(metadata.get("creationTimestamp")):
        metadata.pop("creationTimestamp", None)
    # The surface of a custom kind decides which status the plan begins with (`Declaration.planned_object`).
    kept = {name: value for name, value in body.items() if name != "status" or body.get("kind") not in TAKEN}
    if body.get("kind") == "Node":
        if not _is_ready(body):
            # A node without a simulated kubelet stays unready in the plan.
            metadata["annotations"] = {**(metadata.get("annotations") or {}), UNMANAGED: "not ready in the snapshot"}
        kept["spec"] = {name: value for name, value in (body.get("spec") or {}).items() if name != "podCIDRs"}
    return {**kept, "metadata": metadata}


def _is_instant(text: object) -> bool:
    try:
        return datetime.fromisoformat(str(text)).tzinfo is not None
    except ValueError:
        return False


def _is_ready(node: Json) -> bool:
    """Whether a node is ready. A node without the condition Ready was written by hand, and counts as ready."""
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = [each.get("status") for each in conditions if isinstance(each, dict) and each.get("type") == "Ready"]
    return ready in ([], ["True"])
