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
import yaml

from haulout.base.clock import SystemClock
from haulout.cli.explaining import endpoint_of, read_setup
from haulout.cli.settings import PlanSettings
from haulout.embedded.controllers.kinds import (
    DAEMON_SETS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NODES,
    STATEFUL_SETS,
)
from haulout.embedded.seams import Json, Resource
from haulout.kube.errors import Forbidden, KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.model.meta import wire_micro_time
from haulout.plan.chart import svg_chart, text_chart
from haulout.plan.forecast import Done, Forecast, Simulation
from haulout.surfaces.profiles.engine import Config
from haulout.surfaces.profiles.wire import PROFILE_LABEL, attached_profiles

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
        config = _config(settings)
        objects = _objects(settings)
        forecast = _simulated(settings, config, objects)
        if settings.svg:
            _draw(forecast, settings.svg)
    except click.ClickException as error:
        error.show()
        return 1
    lines = [_json(forecast)] if settings.output == "json" else _text(forecast)
    for line in lines:
        click.echo(line)
    return 0


def _config(settings: PlanSettings) -> Config:
    """The profiles' own file, or the one that a haulout.yaml names."""
    config = read_setup(settings.config).profiles
    if config is None:
        raise click.ClickException(
            f"{settings.config}: profiles are not switched on, and there is nothing else to plan"
        )
    unknown = [name for name in attached_profiles(settings.profile) if name not in config.profiles]
    if settings.profile and unknown:
        known = ", ".join(sorted(config.profiles))
        raise click.ClickException(f"{settings.config}: there is no profile {unknown[0]!r} (there are: {known})")
    return config


def _draw(forecast: Forecast, path: str) -> None:
    try:
        Path(path).write_text(svg_chart(forecast))
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None


def _simulated(settings: PlanSettings, config: Config, objects: Objects) -> Forecast:
    begins_at = datetime.fromisoformat(settings.at).astimezone(UTC) if settings.at else datetime.now(UTC)
    done = [Done(state, timedelta(seconds=seconds), label, value) for state, seconds, label, value in settings.after]
    simulation = Simulation(
        config,
        objects,
        begins_at=begins_at.replace(microsecond=0),
        done=done,
        seed=settings.seed,
        on_problem=lambda text: click.echo(text, err=True),
    )
    return simulation.run(timedelta(days=settings.days))


# What there is


def _objects(settings: PlanSettings) -> Objects:
    if settings.nodes:
        found = list(_made_up(settings.nodes, settings.zones))
    elif settings.snapshot:
        found = _snapshot(settings.snapshot)
    else:
        found = asyncio.run(_live(dict(settings.cluster)))
    if not any(resource == NODES for resource, _ in found):
        raise click.ClickException("there are no nodes to plan for (--nodes N makes some up)")
    wanted = dict(settings.labels) | ({PROFILE_LABEL: settings.profile} if settings.profile else {})
    for resource, body in found:
        if resource == NODES:
            body["metadata"]["labels"] = {**body["metadata"].get("labels", {}), **wanted}
    return found


def _made_up(count: int, zones: int) -> Iterator[tuple[Resource, Json]]:
    for number in range(count):
        name = f"node-{number + 1:0{len(str(count))}}"
        labels = {"kubernetes.io/hostname": name, ZONE: f"zone-{number % zones + 1}"}
        yield NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def _snapshot(path: str) -> Objects:
    try:
        data = sys.stdin.read() if path == "-" else Path(path).read_text()
        documents = [document for document in yaml.safe_load_all(data) if isinstance(document, dict)]
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise click.ClickException(f"{path} is not YAML: {error}") from None
    bodies = [body for document in documents for body in document.get("items", [document])]
    return _ordered([body for body in bodies if isinstance(body, dict)])


async def _live(cluster: dict[str, Any]) -> Objects:
    endpoint = endpoint_of(cluster)
    transport = HttpTransport(endpoint, SystemClock())
    bodies: list[Json] = []
    try:
        async with asyncio.timeout(LIST_WITHIN):
            for kind, resource in TAKEN.items():
                bodies += await _listed(transport, kind, resource)
    except TimeoutError:
        raise click.ClickException(f"{endpoint.server} did not list its objects within {LIST_WITHIN:g} s") from None
    except KubeError as error:
        raise click.ClickException(f"{endpoint.server} cannot be read: {error}") from None
    finally:
        await transport.close()
    return _ordered(bodies)


async def _listed(transport: HttpTransport, kind: str, resource: Resource) -> list[Json]:
    group = f"/apis/{resource.group}" if resource.group else "/api"
    try:
        kept: Any = dict[str, Any]
        bodies: list[Any] = await read_list(transport, f"{group}/{resource.version}/{resource.plural}", kept)
    except (Forbidden, NotFound) as error:
        if kind == "Node":
            raise
        click.echo(f"{resource.plural} are left out: {error}", err=True)
        return []
    return [{**body, "kind": kind} for body in bodies]


def _ordered(bodies: list[Json]) -> Objects:
    """Namespaces before what lies in them; each as somebody would create it."""
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
        kept["spec"] = {name: value for name, value in (body.get("spec") or {}).items() if name != "podCIDRs"}
    return {**kept, "metadata": metadata}


# What comes of it


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


def _json(forecast: Forecast) -> str:
    body = {
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
