"""`haulout report`: what maintenances took, waited for and failed by, over a time, from the logbook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import click
import msgspec

from haulout.base.bounds import text
from haulout.base.clock import SystemClock
from haulout.base.spans import span_text
from haulout.base.visible import page
from haulout.core.logbook.chronic import CHRONIC, returning
from haulout.core.logbook.wire import MaintenanceRecord, Outcome
from haulout.explain.home import home_endpoint
from haulout.explain.records import read_records, started_at
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from haulout.model.meta import wire_time
from haulout.runtime.interruption import run_command

MOST_SHOWN = 10
WHOLE = "whole"
# Errors that differ after so many characters count as one cause.
LONGEST_CAUSE = 120


class OutcomeCount(msgspec.Struct, frozen=True):
    """How many maintenances of a surface ended in one way, or go on (`outcome` empty)."""

    surface: str
    outcome: str
    count: int


class PhaseTimes(msgspec.Struct, frozen=True):
    """How long a phase lasted for the maintenances of a surface, in seconds: the median and the 95th percentile.

    `phase`: from its beginning to that of the next one; `whole`: from the beginning of the maintenance to its end.
    """

    surface: str
    phase: str
    count: int
    p50: float
    p95: float


class WaitTotal(msgspec.Struct, frozen=True):
    """For how many seconds maintenances waited for one object for one reason, together, and how many they were."""

    code: str
    subject: str
    seconds: int
    count: int


class FailureCause(msgspec.Struct, frozen=True):
    """How many maintenances of a surface failed or were lost, by cause: their error, else what they had waited for longest.

    `cause` empty: neither is known.
    """

    surface: str
    outcome: str
    cause: str
    count: int


class Returner(msgspec.Struct, frozen=True):
    """A node that came back for maintenance so often that it may be broken."""

    node: str
    count: int
    failed: int = 0


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """What maintenances took, waited for and failed by.

    `since`, `until`: the time that it covers, by the ends of maintenances. `chronic`: nodes with at least
    `chronic_from` maintenances in it. `incomplete`: what could not be read.
    """

    since: datetime
    until: datetime
    total: int
    nodes: int
    outcomes: tuple[OutcomeCount, ...]
    phases: tuple[PhaseTimes, ...]
    waits: tuple[WaitTotal, ...]
    failures: tuple[FailureCause, ...]
    chronic: tuple[Returner, ...]
    chronic_from: int = CHRONIC
    incomplete: tuple[str, ...] = ()


def show_report(since: timedelta, chronic: int, output: str, cluster: Mapping[str, Any]) -> int:
    endpoint = home_endpoint(cluster)
    try:
        found = run_command(_report(since, chronic, endpoint))
    except KubeError as error:
        raise click.ClickException(f"{endpoint.server} cannot be read: {error}") from None
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        click.echo(page(_markdown(found) if output == "markdown" else _lines(found)))
    return 1 if found.incomplete and not found.total else 0


async def _report(since: timedelta, chronic: int, endpoint: Endpoint) -> Report:
    transport, incomplete = HttpTransport(endpoint, SystemClock()), list[str]()
    try:
        records = await read_records(transport, incomplete)
    finally:
        await transport.close()
    now = datetime.now(UTC)
    return msgspec.structs.replace(report_of(records, now - since, now, chronic), incomplete=tuple(incomplete))


def report_of(records: Iterable[MaintenanceRecord], since: datetime, until: datetime, chronic: int = CHRONIC) -> Report:
    """Return the report about the maintenances that ended within a time or still go on."""
    chosen = [each for each in records if since <= (each.status.ended_at or until) <= until]
    counts = Counter((each.spec.surface, _outcome(each)) for each in chosen)
    returned = returning(((each.spec.node.name, started_at(each)) for each in chosen), since, chronic)
    failed = Counter(each.spec.node.name for each in chosen if _has_failed(each))
    return Report(
        since=since,
        until=until,
        total=len(chosen),
        nodes=len({each.spec.node.name for each in chosen}),
        outcomes=tuple(OutcomeCount(*key, count) for key, count in sorted(counts.items())),
        phases=tuple(_phases(chosen)),
        waits=tuple(_waits(chosen)),
        failures=tuple(_failures(chosen)),
        chronic=tuple(Returner(node, count, failed[node]) for node, count in returned),
        chronic_from=chronic,
    )


def _outcome(record: MaintenanceRecord) -> str:
    return record.status.outcome.value if record.status.outcome is not None else ""


def _has_failed(record: MaintenanceRecord) -> bool:
    return record.status.outcome in (Outcome.FAILED, Outcome.LOST)


def _phases(records: Iterable[MaintenanceRecord]) -> Iterator[PhaseTimes]:
    found: dict[tuple[str, str], list[float]] = {}
    for each in records:
        phases, surface = each.status.phases, each.spec.surface
        for phase, following in pairwise(phases):
            found.setdefault((surface, phase.name), []).append(max((following.at - phase.at).total_seconds(), 0.0))
        if each.status.ended_at is not None:
            whole = (each.status.ended_at - started_at(each)).total_seconds()
            found.setdefault((surface, WHOLE), []).append(max(whole, 0.0))
    for (surface, name), spans in sorted(found.items()):
        spans.sort()
        yield PhaseTimes(surface, name, len(spans), percentile(spans, 0.5), percentile(spans, 0.95))


def percentile(ordered: list[float], share: float) -> float:
    """Return the value below or at which this share of the ordered values lies."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def _waits(records: Iterable[MaintenanceRecord]) -> Iterator[WaitTotal]:
    seconds: Counter[tuple[str, str]] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    for wait in (wait for each in records for wait in each.status.waited_for):
        seconds[wait.code, wait.subject] += wait.seconds
        counts[wait.code, wait.subject] += 1
    for key, total in sorted(seconds.items(), key=lambda each: (-each[1], each[0])):
        yield WaitTotal(*key, total, counts[key])


def _failures(records: Iterable[MaintenanceRecord]) -> Iterator[FailureCause]:
    causes = Counter((each.spec.surface, _outcome(each), _cause(each)) for each in records if _has_failed(each))
    for key, count in sorted(causes.items(), key=lambda each: (-each[1], each[0])):
        yield FailureCause(*key, count)


def _cause(record: MaintenanceRecord) -> str:
    if record.status.error:
        return text(record.status.error, LONGEST_CAUSE)
    longest = max(record.status.waited_for, key=lambda wait: wait.seconds, default=None)
    return f"{longest.code} {longest.subject}".strip() if longest is not None else ""


def _lines(found: Report) -> Iterator[str]:
    yield from (f"INCOMPLETE: {text}" for text in found.incomplete)
    yield f"{found.total} maintenances of {found.nodes} nodes, {wire_time(found.since)} to {wire_time(found.until)}"
    for title, heading, rows in _tables(found):
        if rows:
            yield ""
            yield f"{title}:"
            widths = [max(len(row[column]) for row in (heading, *rows)) for column in range(len(heading))]
            for row in (heading, *rows):
                yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _markdown(found: Report) -> Iterator[str]:
    yield f"# Maintenances from {wire_time(found.since)} to {wire_time(found.until)}"
    yield ""
    yield from (f"**Incomplete**: {_plain(text)}" for text in found.incomplete)
    yield f"{found.total} maintenances of {found.nodes} nodes."
    for title, heading, rows in _tables(found):
        if rows:
            yield from ("", f"## {title}", "")
            yield f"| {' | '.join(heading)} |"
            yield f"|{'---|' * len(heading)}"
            yield from (f"| {' | '.join(map(_plain, row))} |" for row in rows)


def _plain(text: str) -> str:
    """Return a text without marks that Markdown or HTML would follow. Users choose the names in it."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{sign}" if sign in "\\`*_[]|!" else sign for sign in escaped)


Rows = list[tuple[str, ...]]


def _tables(found: Report) -> Iterator[tuple[str, tuple[str, ...], Rows]]:
    outcomes: Rows = [(each.surface, each.outcome or "in progress", str(each.count)) for each in found.outcomes]
    yield "How they ended", ("surface", "outcome", "number"), outcomes
    times: Rows = [
        (each.surface, each.phase, str(each.count), _span(each.p50), _span(each.p95)) for each in found.phases
    ]
    yield "How long phases took", ("surface", "phase", "number", "p50", "p95"), times
    waits: Rows = [(each.code, each.subject, _span(each.seconds), str(each.count)) for each in found.waits[:MOST_SHOWN]]
    yield "What they waited for most", ("reason", "object", "time", "number"), waits
    failures: Rows = [
        (each.surface, each.outcome, each.cause or "-", str(each.count)) for each in found.failures[:MOST_SHOWN]
    ]
    yield "What failed", ("surface", "outcome", "cause", "number"), failures
    chronic: Rows = [(each.node, str(each.count), str(each.failed)) for each in found.chronic[:MOST_SHOWN]]
    yield (
        f"Nodes that come back again and again (at least {found.chronic_from} times)",
        ("node", "number", "failed"),
        chronic,
    )


def _span(seconds: float) -> str:
    return span_text(timedelta(seconds=seconds))


def report_schema() -> dict[str, Any]:
    """Return the JSON schema of the document that `report -o json` prints."""
    from haulout.base.json_schema import schema_of

    return schema_of(Report)
