"""`haulout history`: what happened, from the records of maintenances and the events about the objects that concern them."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from haulout.base.clock import SystemClock
from haulout.base.spans import span_text
from haulout.base.visible import page
from haulout.cluster.key import Key
from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.core.budgets.wire import NODE_BUDGETS
from haulout.core.declaration import Declaration
from haulout.core.logbook.account import stored_instant
from haulout.core.logbook.trace import trace_id
from haulout.core.logbook.wire import MaintenanceRecord
from haulout.explain.home import home_endpoint
from haulout.explain.kinds import kinds
from haulout.explain.operators import OperatorState, operator_lines, operator_state
from haulout.explain.records import read_records, started_at
from haulout.explain.setup import Setup, declaration_of, setup_of
from haulout.explain.unread_text import unread_text
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ApiError, Forbidden, KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport
from haulout.model.meta import wire_time
from haulout.runtime.interruption import run_command
from haulout.surfaces.registry import surfaces

Json = dict[str, Any]

# The kind whose objects make objects of another kind for nodes, and that other kind.
SET, MAINTENANCE = "NodeMaintenanceSet", "NodeMaintenance"


class HistorySubject(msgspec.Struct, frozen=True):
    """What the history is about: a Node, another object, or everything (`kind` empty)."""

    kind: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def is_node(self) -> bool:
        return self.kind == "Node"

    def __str__(self) -> str:
        return "/".join(filter(None, (self.kind, self.namespace, self.name)))


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    """One event about a node, or about an object that concerns it.

    `by`: the controller that reported it. `surface`: the surface of that controller; empty for a foreign controller.
    `times`: how often it was reported. `at`: when it was reported last.
    """

    at: datetime
    by: str
    surface: str
    object: str
    reason: str
    text: str
    is_warning: bool = False
    times: int = 1


class TracedRecord(MaintenanceRecord, frozen=True, rename="camel"):
    """A MaintenanceRecord with the id of its trace, which follows from its UID, whether or not traces are exported."""

    trace_id: str = ""


class History(msgspec.Struct, frozen=True, rename="camel"):
    """What happened, the oldest first.

    `of`: the object that it is about; empty: every node. `exists`: whether the object exists; records and events outlive
    it. `incomplete`: what could not be read. `operator`: whether an operator leads.
    """

    of: str
    records: tuple[TracedRecord, ...]
    events: tuple[Entry, ...]
    exists: bool = True
    incomplete: tuple[str, ...] = ()
    operator: OperatorState = OperatorState()


def subject_of(word: str) -> HistorySubject:
    """Return what a word on the command line names: NODE, node/NODE, or KIND/[NAMESPACE/]NAME. Raises UsageError."""
    if not word:
        return HistorySubject()
    kind, slash, rest = word.partition("/")
    if not slash:
        return HistorySubject("Node", "", word)
    found = kinds().get(kind.lower())
    if found is None or not rest:
        raise click.UsageError(f"{word!r} names no node and no object (NODE, or KIND/NAME such as nm/update)")
    namespace, _, name = rest.rpartition("/")
    return HistorySubject(found[1].kind, namespace, name)


def show_history(word: str, since: timedelta | None, output: str, cluster: Mapping[str, Any]) -> int:
    """Print what happened to a node, to an object, or to all nodes."""
    subject = subject_of(word)
    endpoint = home_endpoint(cluster)
    try:
        setup = setup_of("", endpoint, is_lenient=True)
        found = run_command(_history(subject, since, setup, endpoint))
    except KubeError as error:
        raise click.ClickException(f"{endpoint.server} cannot be read: {error}") from None
    has_nothing = not found.records and not found.events
    if subject.name and has_nothing and not found.exists:
        why = "".join(f" ({text})" for text in found.incomplete)
        what = f"there is no node named {subject.name}" if subject.is_node else f"there is no {subject}"
        raise click.ClickException(f"{what}, and no record or event about one is kept{why}")
    match output:
        case "json":
            click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        case "csv":
            click.echo(table_of(found.records), nl=False)
        case _:
            firsts = operator_lines(found.operator, datetime.now(UTC))
            click.echo(page([*firsts, *_lines(found, is_wide=output == "wide")]))
    return 1 if setup.is_broken else found.operator.exit_code


async def _history(subject: HistorySubject, since: timedelta | None, setup: Setup, endpoint: Endpoint) -> History:
    transport = HttpTransport(endpoint, SystemClock())
    incomplete = list(setup.unread) if setup.is_broken else []
    try:
        operator = await operator_state(setup, transport, SystemClock().now)
        known = await _read(subject, transport, incomplete) if subject.name else {}
        of_set = _nodes_of_set(subject, known)
        every = await read_records(transport, incomplete)
        records = [each for each in every if _concerns(each, subject) or _is_of_set(each, of_set)]
        entries = list[Entry]()
        if subject.name:
            wanted = {(subject.kind, subject.namespace, subject.name)}
            wanted |= {*await _objects(subject.name, transport, incomplete)} if subject.is_node else set()
            # Events outlive their objects, and so do records, which name them.
            wanted |= {(each.spec.owner.kind, each.spec.owner.namespace, each.spec.owner.name) for each in records}
            for kind in sorted({kind for kind, _, _ in wanted if kind}):
                entries += await _entries(kind, wanted, transport, incomplete)
    finally:
        await transport.close()
    if since is not None:
        first = datetime.now(UTC) - since
        records = [each for each in records if (each.status.ended_at or datetime.now(UTC)) >= first]
        entries = [each for each in entries if each.at >= first]
    entries.sort(key=lambda entry: entry.at)
    return History(
        str(subject), tuple(map(_traced, records)), tuple(entries), known is not None, tuple(incomplete), operator
    )


def _traced(record: MaintenanceRecord) -> TracedRecord:
    return TracedRecord(record.metadata, record.spec, record.status, trace_id(record.metadata.uid))


async def _read(subject: HistorySubject, transport: Transport, incomplete: list[str]) -> Json | None:
    """Return the object; None if there is none, and an empty object if it may not be read."""
    kinds = (RESOURCES["Node"], NODE_BUDGETS, *(kind for each in surfaces() for kind in declaration_of(each).kinds))
    resource = next((each for each in kinds if each.kind == subject.kind), None)
    if resource is None:
        return None
    is_anywhere = resource.namespaced and not subject.namespace
    key = Key("", subject.kind, subject.namespace, subject.name)
    path = resource.path if is_anywhere else resource.object_path(key)
    query = {"fieldSelector": f"metadata.name={subject.name}"} if is_anywhere else None
    try:
        reply = await transport.request("GET", path, query=query)
    except NotFound:
        return None
    except Forbidden as error:
        incomplete.append(unread_text(resource.plural, error, "get"))
        return {}
    body: Any = msgspec.json.decode(reply.body)
    found = next(iter(body.get("items") or ()), None) if is_anywhere else body
    return found if isinstance(found, dict) else None


def _nodes_of_set(subject: HistorySubject, found: Json | None) -> Mapping[str, datetime]:
    """Return the nodes of a NodeMaintenanceSet, each with the time since which its maintenances may be those of the set."""
    made_at = stored_instant(str((found or {}).get("metadata", {}).get("creationTimestamp", "")))
    if subject.kind != SET or found is None or made_at is None:
        return {}
    nodes = (found.get("spec") or {}).get("nodes")
    return {str(each): made_at for each in nodes} if isinstance(nodes, list) else {}


def _is_of_set(record: MaintenanceRecord, nodes: Mapping[str, datetime]) -> bool:
    """Whether a record is about a NodeMaintenance as a set makes it: named like its node, after the set."""
    spec = record.spec
    is_named = spec.owner.kind == MAINTENANCE and spec.owner.name == spec.node.name
    return is_named and spec.node.name in nodes and started_at(record) >= nodes[spec.node.name]


def _concerns(record: MaintenanceRecord, subject: HistorySubject) -> bool:
    """Whether a record is about a node or an owner. An owner without a namespace is found in every namespace."""
    if not subject.name:
        return True
    if subject.is_node:
        return record.spec.node.name == subject.name
    owner = record.spec.owner
    return (owner.kind, owner.name) == (subject.kind, subject.name) and subject.namespace in ("", owner.namespace)


async def _objects(node: str, transport: Transport, incomplete: list[str]) -> list[tuple[str, str, str]]:
    """Return kind, namespace and name of all objects of surfaces that are about the node."""
    found = []
    for declaration in map(declaration_of, surfaces()):
        try:
            found += [row async for row in _about(declaration, node, transport)]
        except NotFound:
            continue
        except ApiError as error:
            incomplete.append(unread_text(_plural(declaration), error))
    return found


def _plural(declaration: Declaration) -> str:
    """Return the plural name of the objects of a surface that are about nodes."""
    objects = declaration.node_objects
    return next((kind.plural for kind in declaration.kinds if objects is not None and kind.kind == objects.kind), "")


async def _about(declaration: Declaration, node: str, transport: Transport) -> AsyncIterator[tuple[str, str, str]]:
    objects = declaration.node_objects
    if objects is None:
        return
    resource = next(kind for kind in declaration.kinds if kind.kind == objects.kind)
    projector = Projector(resource, "", Keep())
    for item in await read_list(transport, resource.path, resource.model):
        row = projector.row(item)
        if objects.node(row) == node:
            yield row.key.kind, row.key.namespace, row.key.name


async def _entries(
    kind: str, wanted: set[tuple[str, str, str]], transport: Transport, incomplete: list[str]
) -> list[Entry]:
    """Return the events about the wanted objects of a kind."""
    try:
        kept: Any = Json
        path, query = "/api/v1/events", {"fieldSelector": f"involvedObject.kind={kind}"}
        events: list[Json] = await read_list(transport, path, kept, query=query)
    except ApiError as error:
        text = unread_text("events", error)
        # It is the same right for all kinds.
        if text not in incomplete:
            incomplete.append(text)
        return []
    return [entry for event in events for entry in _entry(event, wanted)]


def _entry(event: Json, wanted: set[tuple[str, str, str]]) -> Iterator[Entry]:
    about = event.get("involvedObject") or {}
    kind, namespace, name = (str(about.get(field) or "") for field in ("kind", "namespace", "name"))
    at = _at(event)
    if at is None or (kind, "" if kind == "Node" else namespace, name) not in wanted:
        return
    series = event.get("series") or {}
    by = str(event.get("reportingComponent") or (event.get("source") or {}).get("component") or "unknown")
    yield Entry(
        at=at,
        by=by,
        surface=next((each.name for each in surfaces() if each.reporter == by), ""),
        object=f"{kind} {namespace}/{name}" if namespace and kind != "Node" else f"{kind} {name}",
        reason=str(event.get("reason") or ""),
        text=" ".join(str(event.get("message") or "").split()),
        is_warning=event.get("type") == "Warning",
        times=int(series.get("count") or event.get("count") or 1),
    )


def _at(event: Json) -> datetime | None:
    """Return when an event was last reported, or None if it has no valid time."""
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
    )
    for text in filter(None, times):
        try:
            return datetime.fromisoformat(str(text)).astimezone(UTC)
        except ValueError:
            continue
    return None


def _lines(found: History, *, is_wide: bool) -> Iterator[str]:
    yield from (f"INCOMPLETE: {text}" for text in found.incomplete)
    if found.of and not found.exists:
        yield f"{_spoken(found.of)} is gone"
    if not found.records and not found.events:
        if found.incomplete:
            yield f"nothing about {_spoken(found.of)} could be read"
        else:
            yield f"no record or event about {_spoken(found.of)} is kept (the API server keeps events for an hour if not told otherwise)"
    lines = [(started_at(each), tuple(_record_lines(each, is_wide=is_wide))) for each in found.records]
    lines += [(entry.at, (_event_line(entry),)) for entry in found.events]
    for _, texts in sorted(lines, key=lambda each: each[0]):
        yield from texts


def _spoken(of: str) -> str:
    return f"node {of.removeprefix('Node/')}" if of.startswith("Node/") else of or "any node"


def _event_line(entry: Entry) -> str:
    often = f" (x{entry.times})" if entry.times > 1 else ""
    mark = "!" if entry.is_warning else " "
    return (
        f"{wire_time(entry.at)} {mark} {entry.surface or entry.by}: {entry.object}: {entry.reason}: {entry.text}{often}"
    )


def _record_lines(record: MaintenanceRecord, *, is_wide: bool) -> Iterator[str]:
    spec, status = record.spec, record.status
    begun_at = started_at(record)
    outcome = status.outcome.value if status.outcome is not None else "in progress"
    took = f" after {span_text(status.ended_at - begun_at)}" if status.ended_at is not None else ""
    who = f", requested by {spec.requested_by.name} ({spec.requested_by.how.value})" if spec.requested_by.name else ""
    why = f": {' '.join(spec.reason.split())}" if spec.reason else ""
    owner = "/".join(filter(None, (spec.owner.kind, spec.owner.namespace, spec.owner.name)))
    mark = "!" if outcome in ("Failed", "Lost") else "*"
    yield f"{wire_time(begun_at)} {mark} node {spec.node.name}: {spec.surface}: {owner}: {outcome}{took}{who}{why}"
    if is_wide:
        yield from (f"    {text}" for text in _details(record))


def _details(record: MaintenanceRecord) -> Iterator[str]:
    status = record.status
    if status.error:
        yield f"error: {' '.join(status.error.split())}"
    if status.phases:
        yield "phases: " + ", ".join(
            f"{each.name} {wire_time(each.at)}{'' if each.certainty.value == 'exact' else ' or earlier'}"
            for each in status.phases
        )
    if status.waited_for:
        waits = (
            f"{each.code} {each.subject} ({span_text(timedelta(seconds=each.seconds))})" for each in status.waited_for
        )
        yield "waited for: " + ", ".join(waits)
    if status.drain is not None:
        yield f"drain: {status.drain.evicted} evicted, {status.drain.deleted} deleted, {status.drain.ignored} left running"
    if status.limits:
        yield "limits: " + ", ".join(status.limits)
    for act in status.acts:
        by = f" by {act.by}" if act.by else ""
        of = f" of {act.limit}" if act.limit else ""
        yield f"{act.act}{of}{by}{f' at {wire_time(act.at)}' if act.at is not None else ''}: {act.reason}"


COLUMNS = (
    *("record", "node", "surface", "kind", "namespace", "owner", "requestedBy", "how", "reason", "begunAt", "endedAt"),
    *("outcome", "seconds", "evicted", "deleted", "ignored", "error"),
)


def table_of(records: Iterable[MaintenanceRecord]) -> str:
    """Return records as a table of comma-separated values with a heading."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in records:
        spec, status, drain = each.spec, each.status, each.status.drain
        began, ended = started_at(each), status.ended_at
        row = (
            *(each.metadata.name, spec.node.name, spec.surface, spec.owner.kind, spec.owner.namespace, spec.owner.name),
            *(spec.requested_by.name, spec.requested_by.how.value, spec.reason, wire_time(began)),
            wire_time(ended) if ended is not None else "",
            status.outcome.value if status.outcome is not None else "",
            int((ended - began).total_seconds()) if ended is not None else "",
            *((drain.evicted, drain.deleted, drain.ignored) if drain is not None else ("", "", "")),
            status.error,
        )
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: object) -> object:
    """Return a value as a cell that no spreadsheet takes for a formula. Users choose names and reasons."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def history_schema() -> dict[str, Any]:
    """Return the JSON schema of the document that `history -o json` prints."""
    from haulout.base.json_schema import schema_of

    return schema_of(History)
