"""Explains a NotifyMaintenance: which rule applies to it, what it waits for, and which party has to act."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from haulout.base.clock import SystemClock
from haulout.base.visible import page
from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.explain.documents import as_json
from haulout.explain.home import home_endpoint
from haulout.explain.operators import OperatorState, operator_lines, operator_state
from haulout.explain.paint import echo
from haulout.explain.setup import Setup, setup_of
from haulout.explain.snapshot import picture
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from haulout.runtime.interruption import run_command
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.present import NoticeExplanation, explanation
from haulout.surfaces.notify.situation import situation_of
from haulout.surfaces.notify.wire import RESOURCE, SURFACE, notice_key

# The SLA that is assumed if no settings are found.
SLA_FOR = timedelta(hours=1)


class NoticeDocument(NoticeExplanation, frozen=True, rename="camel"):
    """The document that `haulout explain notifymaintenance NAME -o json` prints. `operator`: whether an operator leads."""

    operator: OperatorState = OperatorState()


def explain_notice(name: str, config: str, output: str, cluster: Mapping[str, Any]) -> int:
    endpoint = home_endpoint(cluster, config)
    try:
        setup = setup_of(config, endpoint)
        if setup.options(SURFACE) is None:
            setup = setup.with_options(SURFACE, Options(sla_for=SLA_FOR))
        found = run_command(_explained(notice_key(endpoint.namespace, name), setup, endpoint))
    except KubeError as error:
        raise click.ClickException(f"NotifyMaintenance {endpoint.namespace}/{name} cannot be read: {error}") from None
    if found is None:
        raise click.ClickException(f"there is no NotifyMaintenance named {name} in namespace {endpoint.namespace}")
    lines = page(operator_lines(found.operator, datetime.now(UTC)))
    if output == "json":
        click.echo(as_json(found))
    else:
        echo("\n".join(filter(None, (lines, as_text(found)))))
    return found.operator.exit_code


def notice_document(view: View, key: Key, now: datetime, operator: OperatorState) -> NoticeDocument | None:
    """Return the explanation of a NotifyMaintenance; None if there is no such object."""
    situation = situation_of(key, view, now)
    if situation is None:
        return None
    return NoticeDocument(**msgspec.structs.asdict(explanation(situation)), operator=operator)


async def _explained(key: Key, setup: Setup, endpoint: Endpoint) -> NoticeDocument | None:
    """Explain a NotifyMaintenance; None if there is no such object.

    All surfaces decide, because what others do with its node is part of the answer.
    """
    home = HttpTransport(endpoint, SystemClock())
    try:
        # One plain request first: a reflector would retry a failure without an error.
        await home.request("GET", RESOURCE.path, query={"limit": "1"})
        operator = await operator_state(setup, home, SystemClock().now, others=(SURFACE,))
        kernel = await picture(setup, home)
    finally:
        await home.close()
    return notice_document(View(kernel.store, explaining=True), key, datetime.now(UTC), operator)


def as_text(found: NoticeExplanation) -> str:
    since = f" since {found.since:%Y-%m-%dT%H:%M:%SZ}" if found.since else ""
    lines = [
        f"NotifyMaintenance {found.object} ({found.maintenance} on node {found.node}): {found.state}{since}",
        f"  rule {found.rule}",
        f"  waits for: {found.waits_for}",
        f"  to act: {found.actor}",
    ]
    if found.not_before is not None:
        lines.append(f"  not before: {found.not_before:%Y-%m-%dT%H:%M:%SZ}")
    if found.until is not None:
        lines.append(f"  SLA expires: {found.until:%Y-%m-%dT%H:%M:%SZ}")
    return page([*lines, *(f"  {note}" for note in found.notes)])
