"""`haulout explain ndb`: which nodes take the places of a NodeDisruptionBudget, what waits for it, and when it opens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from haulout.base.clock import SystemClock
from haulout.base.visible import page
from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.budgets.counts import Ruling, ruling_key
from haulout.core.budgets.status import Status, status_of
from haulout.core.budgets.wire import KIND, NodeBudgetRow
from haulout.explain.documents import BudgetExplanation, as_json
from haulout.explain.home import home_endpoint
from haulout.explain.node import unread
from haulout.explain.operators import OperatorState, operator_lines, operator_state
from haulout.explain.paint import echo_lines
from haulout.explain.setup import Setup, setup_of
from haulout.explain.snapshot import picture
from haulout.explain.until_text import WINDOW_CLOSED, until_text
from haulout.kernel.kernel import Kernel
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from haulout.runtime.interruption import run_command


def explain_budget(name: str, config: str, output: str, cluster: Mapping[str, Any]) -> int:
    """Print what a NodeDisruptionBudget allows, which nodes use it and which claims wait for it."""
    endpoint = home_endpoint(cluster, config)
    try:
        setup = setup_of(config, endpoint, is_lenient=True)
        kernel, operator = run_command(_settled(setup, endpoint))
    except (KubeError, TimeoutError) as error:
        raise click.ClickException(f"{endpoint.server} cannot be read: {str(error) or 'no answer'}") from None
    now = datetime.now(UTC)
    found = explained_budget(kernel, name, setup, now)
    if found is None:
        table = kernel.store.table("", KIND)
        if table.listing is Listing.UNREADABLE:
            raise click.ClickException(f"{KIND}s cannot be read: {table.why or 'no answer'}")
        raise click.ClickException(f"there is no {KIND} named {name}")
    found = msgspec.structs.replace(found, operator=operator)
    if output == "json":
        click.echo(as_json(found))
    else:
        echo_lines([*operator_lines(operator, now), *_lines(found, now)])
    return 1 if setup.is_broken else operator.exit_code


def budget_text(kernel: Kernel, name: str, setup: Setup, now: datetime, operator: OperatorState) -> str | None:
    """Return the explanation of a budget, or None if no budget has that name."""
    found = explained_budget(kernel, name, setup, now)
    return page([*operator_lines(operator, now), *_lines(found, now)]) if found is not None else None


def explained_budget(kernel: Kernel, name: str, setup: Setup, now: datetime) -> BudgetExplanation | None:
    """Return the explanation of a budget as a document, or None if no budget has that name."""
    status = _status(kernel, name, now)
    if status is None:
        return None
    alone = () if setup.together else ("no haulout.yaml was found: a drop-in alone does not obey budgets",)
    row = kernel.store.row(Key("", KIND, "", name))
    spec = row.spec if isinstance(row, NodeBudgetRow) else None
    return BudgetExplanation(name, status, setup.origin, (*setup.unread, *unread(kernel), *alone), spec=spec)


async def _settled(setup: Setup, endpoint: Endpoint) -> tuple[Kernel, OperatorState]:
    transport = HttpTransport(endpoint, SystemClock())
    try:
        operator = await operator_state(setup, transport, SystemClock().now)
        return await picture(msgspec.structs.replace(setup, together=True), transport), operator
    finally:
        await transport.close()


def _status(kernel: Kernel, name: str, now: datetime) -> Status | None:
    row, ruling = kernel.store.row(Key("", KIND, "", name)), kernel.store.row(ruling_key(name))
    if not isinstance(row, NodeBudgetRow) or not isinstance(ruling, Value) or not isinstance(ruling.value, Ruling):
        return None
    return status_of(row, ruling.value, View(kernel.store, explaining=True), now)


def _lines(found: BudgetExplanation, now: datetime) -> Iterator[str]:
    status = found.status
    yield from (f"INCOMPLETE: {text}" for text in found.incomplete)
    most = f"{status['used']} of {status['allowed']}" if "allowed" in status else f"{status['used']} of any number of"
    yield f"budget {found.name}: {most} nodes are out of service"
    yield f"  settings: {found.settings}"
    if opening := status.get("nextOpening"):
        yield f"  window closed{until_text(WINDOW_CLOSED, datetime.fromisoformat(opening), now)}"
    invalid = [
        each["message"] for each in status["conditions"] if each.get("type") == "Valid" and each["status"] != "True"
    ]
    yield from (f"  invalid, and no new maintenance starts on its nodes: {text}" for text in invalid)
    yield from (f"  {each['node']}: {each.get('surface') or each.get('reason')}" for each in status["holders"])
    waiting = status["waiting"]
    waiters = "1 node waits" if waiting["count"] == 1 else f"{waiting['count']} nodes wait"
    yield f"{waiters} for it" + (", first:" if waiting["first"] else "")
    yield from (f"  {each['node']} for {each['surface']} ({each['reason']})" for each in waiting["first"])
