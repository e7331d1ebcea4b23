"""`haulout plan`: reads what there is, simulates it, prints what comes of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from haulout.base import yaml
from haulout.base.clock import SystemClock
from haulout.base.selector import SelectorError, parse
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
from haulout.explain.snapshot import Setup, endpoint_of, read_setup
from haulout.kube.errors import Forbidden, KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.model.meta import wire_micro_time
from haulout.plan.chart import svg_chart, text_chart
from haulout.plan.collector import without_collector
from haulout.plan.forecast import MAINTENANCES, Done, Forecast, Simulation
from haulout.plan.progress import progress_bar
from haulout.settings.settings import PlanSettings
from haulout.surfaces.nodemaintenance.settings import EVICTION
from haulout.surfaces.profiles.wire import PROFILE_LABEL, attached_profiles
from haulout.surfaces.registry import definition

ZONE = "topology.kubernetes.io/zone"
NAMESPACES = Resource("", "v1", "namespaces")
NODE_BUDGETS = Resource("haulout.dev", "v1alpha1", "nodedisruptionbudgets")
# What a plan takes along; pods follow from their owners.
TAKEN = {
    "Node": NODES,
    "Namespace": NAMESPACES,
    "Deployment": DEPLOYMENTS,
    "StatefulSet": STATEFUL_SETS,
    "DaemonSet": DAEMON_SETS,
    "PodDisruptionBudget": DISRUPTION_BUDGETS,
    "NodeDisruptionBudget": NODE_BUDGETS,
    "NodeMaintenance": MAINTENANCES,
}
# Where the definition of a custom resource is, and which surface it comes with.
DEFINED = {"NodeDisruptionBudget": "nodedisruptionbudgets", "NodeMaintenance": "nodemaintenances"}
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
    """The surfaces that the configuration switches on. EvictionRequests need a server that the plan does not have."""
    setup = read_setup(settings.config, settings.surfaces)
    if settings.maintain and setup.maintenances is None:
        raise click.ClickException("--maintain makes NodeMaintenances: switch on nodemaintenance (--surfaces)")
    if setup.maintenances is not None:
        options = msgspec.structs.replace(setup.maintenances, eviction_backend=EVICTION)
        setup = msgspec.structs.replace(setup, maintenances=options)
    known = setup.profiles.profiles if setup.profiles else {}
    unknown = [name for name in attached_profiles(settings.profile) if name not in known]
    if settings.profile and unknown:
        names = ", ".join(sorted(known)) or "none"
        raise click.ClickException(f"{settings.config}: there is no profile {unknown[0]!r} (there are: {names})")
    return setup


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
        found = _snapshot(settings.snapshot)
    else:
        found = asyncio.run(_live(dict(settings.cluster), lacks))
    nodes = [body for resource, body in found if resource == NODES]
    if not nodes:
        raise click.ClickException("there are no nodes to plan for (--nodes N makes some up)")
    wanted = dict(settings.labels) | ({PROFILE_LABEL: settings.profile} if settings.profile else {})
    for body in nodes:
        body["metadata"]["labels"] = {**body["metadata"].get("labels", {}), **wanted}
    found += [(MAINTENANCES, _maintenance(name)) for name in _maintained(settings.maintain, nodes)]
    return [*_ground(setup, found), *found]


def _ground(setup: Setup, found: Objects) -> Iterator[tuple[Resource, Json]]:
    """Yield the definitions and namespaces that the surfaces need, before what is made of them."""
    places = {TAKEN[kind]: name for kind, name in DEFINED.items()}
    wanted = {places[resource] for resource, _ in found if resource in places}
    wanted |= {DEFINED["NodeDisruptionBudget"]} if setup.together else set()
    wanted |= {DEFINED["NodeMaintenance"]} if setup.maintenances else set()
    for name in sorted(wanted):
        yield CUSTOM_RESOURCE_DEFINITIONS, yaml.load(definition(name))
    own = setup.maintenances.lease_namespace if setup.maintenances else ""
    if own and not any(resource == NAMESPACES and body["metadata"]["name"] == own for resource, body in found):
        yield NAMESPACES, {"metadata": {"name": own}}


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


def _maintenance(node: str) -> Json:
    return {
        "apiVersion": "nodemaintenance.medik8s.io/v1beta1",
        "kind": "NodeMaintenance",
        "metadata": {"name": f"plan-{node}"},
        "spec": {"nodeName": node, "reason": "planned"},
    }


def _made_up(count: int, zones: int) -> Iterator[tuple[Resource, Json]]:
    for number in range(count):
        name = f"node-{number + 1:0{len(str(count))}}"
        labels = {"kubernetes.io/hostname": name, ZONE: f"zone-{number % zones + 1}"}
        yield NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def _snapshot(path: str) -> Objects:
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        documents = [document for document in _documents(data) if isinstance(document, dict)]
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    except yaml.YamlError as error:
        raise click.ClickException(f"{path} is not YAML: {error}") from None
    bodies = [body for document in documents for body in document.get("items", [document])]
    return _ordered([body for body in bodies if isinstance(body, dict)])


def _documents(data: bytes) -> list[Any]:
    """Return what YAML or JSON holds. JSON is YAML, too, but is read far faster as what it is."""
    try:
        return [msgspec.json.decode(data)]
    except (msgspec.DecodeError, RecursionError):
        return yaml.load_all(data, bounds=yaml.SNAPSHOT)


async def _live(cluster: dict[str, Any], lacks: list[str]) -> Objects:
    endpoint = endpoint_of(cluster)
    transport = HttpTransport(endpoint, SystemClock())
    bodies: list[Json] = []
    try:
        async with asyncio.timeout(LIST_WITHIN):
            for kind, resource in TAKEN.items():
                bodies += await _listed(transport, kind, resource, lacks)
    except TimeoutError:
        raise click.ClickException(f"{endpoint.server} did not list its objects within {LIST_WITHIN:g} s") from None
    except KubeError as error:
        raise click.ClickException(f"{endpoint.server} cannot be read: {error}") from None
    finally:
        await transport.close()
    return _ordered(bodies)


async def _listed(transport: HttpTransport, kind: str, resource: Resource, lacks: list[str]) -> list[Json]:
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
        if kind not in DEFINED:
            raise
        return []
    return [{**body, "kind": kind} for body in bodies]


def _ordered(bodies: list[Json]) -> Objects:
    """Return the objects as they would be created, namespaces first."""
    found = [(TAKEN[body["kind"]], _fresh(body)) for body in bodies if body.get("kind") in TAKEN]
    places = {body["metadata"].get("namespace", "") for _, body in found} - {""}
    known = {body["metadata"]["name"] for resource, body in found if resource == NAMESPACES}
    missing = [(NAMESPACES, {"metadata": {"name": name}}) for name in sorted(places - known)]
    order = list(TAKEN.values())
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
