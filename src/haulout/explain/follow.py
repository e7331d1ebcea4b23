"""`haulout explain --watch`: prints the explanation of an object again each time that it changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from haulout.base.clock import SystemClock
from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow
from haulout.core.surface import Explained
from haulout.explain.budgets import budget_text
from haulout.explain.cordons import cordon_text
from haulout.explain.home import home_endpoint
from haulout.explain.live import live_picture
from haulout.explain.node import Explanation, as_text, explain, explain_listed
from haulout.explain.operators import OperatorState, operator_state
from haulout.explain.setup import Setup, setup_of
from haulout.explain.snapshot import narrow_to_node, quiet
from haulout.kernel.kernel import Kernel
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from haulout.runtime.interruption import run_command
from haulout.surfaces.registry import KERNEL

LOOK_EVERY = 10.0
# The texts of remaining and elapsed times. They change every second, and are left out when two texts are compared.
SPANS = re.compile(r"\((in )?[\d a-z]+( ago)?\)")

# Returns the text about the object, or None if it does not exist. The last arguments are its Node as JSON if that is
# cordoned, else empty, and whether an operator leads.
Text = Callable[[Kernel, Setup, datetime, dict[str, Any], OperatorState], str | None]


def follow_object(surface: str, kind: Explained, name: str, config: str, cluster: Mapping[str, Any]) -> int:
    """Print what an object waits for, and again whenever that changes, until interrupted."""
    if kind.command and surface != KERNEL:
        raise click.UsageError(f"--watch follows nodes, budgets and objects of one cluster, not a {kind.words[0]}")
    endpoint = home_endpoint(cluster, config)
    namespace = endpoint.namespace if kind.is_namespaced else ""
    try:
        text = _text(surface, kind, namespace, name)
        run_command(
            _follow(setup_of(config, endpoint, is_lenient=True), endpoint, surface, "" if surface else name, text)
        )
    except (KubeError, TimeoutError) as error:
        raise click.ClickException(f"{endpoint.server} cannot be read: {str(error) or 'no answer'}") from None
    except BaseExceptionGroup as group:
        # A TaskGroup raises the error of a task as an ExceptionGroup.
        found = group.exceptions[0]
        if isinstance(found, KubeError):
            raise click.ClickException(f"{endpoint.server} cannot be read: {found}") from None
        raise found from None
    return 0


def _text(surface: str, kind: Explained, namespace: str, name: str) -> Text:
    def text_of(
        found: Explanation | None, setup: Setup, now: datetime, node: dict[str, Any], operator: OperatorState
    ) -> str | None:
        if found is None:
            return None
        cordon = found.cordon or (cordon_text(node, now) if node else "")
        unread = (*setup.unread, *found.incomplete)
        whole = msgspec.structs.replace(
            found, cordon=cordon, settings=setup.origin, incomplete=unread, operator=operator
        )
        return as_text(whole, now)

    def of_node(
        kernel: Kernel, setup: Setup, now: datetime, node: dict[str, Any], operator: OperatorState
    ) -> str | None:
        return text_of(explain(kernel, setup.enabled, node_key(name), now), setup, now, node, operator)

    def of_budget(
        kernel: Kernel, setup: Setup, now: datetime, node: dict[str, Any], operator: OperatorState
    ) -> str | None:
        return budget_text(kernel, name, setup, now, operator)

    def of_object(
        kernel: Kernel, setup: Setup, now: datetime, node: dict[str, Any], operator: OperatorState
    ) -> str | None:
        declaration = next(each.declaration for each in setup.enabled if each.declaration.name == surface)
        return text_of(
            explain_listed(kernel, declaration, kind, Key("", kind.kind, namespace, name), now, setup.enabled),
            setup,
            now,
            {},
            operator,
        )

    return of_budget if surface == KERNEL else of_object if surface else of_node


async def _follow(setup: Setup, endpoint: Endpoint, surface: str, node: str, text_of: Text) -> None:
    transport = HttpTransport(endpoint, SystemClock())
    last, clock = "", SystemClock()
    try:
        others = (surface,) if surface and surface != KERNEL else ()
        operator, read_at = await operator_state(setup, transport, clock.now, others=others), clock.monotonic()
        served = setup
        if not setup.together:
            setup = await narrow_to_node(setup, transport)
        if surface and surface != KERNEL:
            setup = setup.with_surface(surface)
        with quiet():
            async with live_picture(setup, transport) as live:
                while True:
                    if clock.monotonic() - read_at >= LOOK_EVERY:
                        operator = await operator_state(served, transport, clock.now, others=others)
                        read_at = clock.monotonic()
                    now = datetime.now(UTC)
                    whole = await _cordoned_node(live.kernel, node, transport)
                    text = text_of(live.kernel, setup, now, whole, operator) or "it does not exist"
                    if SPANS.sub("", text) != last:
                        last = SPANS.sub("", text)
                        click.echo(f"--- {now:%H:%M:%S} UTC\n{text}")
                    await live.wait(LOOK_EVERY)
                    live.settle()
    finally:
        await transport.close()


async def _cordoned_node(kernel: Kernel, name: str, transport: HttpTransport) -> dict[str, Any]:
    """Return a cordoned Node as JSON, with the managed fields that name the client that cordoned it; else empty."""
    row = kernel.store.row(node_key(name)) if name else None
    if not isinstance(row, NodeRow) or not row.unschedulable:
        return {}
    try:
        found = msgspec.json.decode((await transport.request("GET", f"/api/v1/nodes/{name}")).body)
    except (KubeError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}
