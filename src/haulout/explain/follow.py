"""`haulout explain --watch`: prints the explanation of an object again each time that it changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from haulout.base.clock import SystemClock
from haulout.cluster.key import Key, node_key
from haulout.core.surface import Explained
from haulout.explain.budgets import budget_text
from haulout.explain.home import home_endpoint
from haulout.explain.live import live_picture
from haulout.explain.node import as_text, explain, explain_listed
from haulout.explain.setup import Setup, setup_of
from haulout.explain.snapshot import narrowed, quiet
from haulout.kernel.kernel import Kernel
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from haulout.runtime.interruption import run_command
from haulout.surfaces.registry import KERNEL

LOOK_EVERY = 30.0
# Time that passes is no change to report.
SPANS = re.compile(r"\((in )?[\d a-z]+( ago)?\)")

# The text about the object, or None if the object does not exist.
Text = Callable[[Kernel, Setup, datetime], str | None]


def follow_object(surface: str, kind: Explained, name: str, config: str, cluster: Mapping[str, Any]) -> int:
    """Print what an object waits for, and again whenever that changes, until interrupted."""
    if kind.command and surface != KERNEL:
        raise click.UsageError(f"--watch follows nodes, budgets and objects of one cluster, not a {kind.words[0]}")
    endpoint = home_endpoint(cluster, config)
    namespace = endpoint.namespace if kind.is_namespaced else ""
    try:
        run_command(_follow(setup_of(config, endpoint), endpoint, surface, _text(surface, kind, namespace, name)))
    except (KubeError, TimeoutError) as error:
        raise click.ClickException(f"{endpoint.server} cannot be read: {str(error) or 'no answer'}") from None
    except BaseExceptionGroup as group:
        # An error of one task leaves its TaskGroup as an ExceptionGroup.
        found = group.exceptions[0]
        if isinstance(found, KubeError):
            raise click.ClickException(f"{endpoint.server} cannot be read: {found}") from None
        raise found from None
    return 0


def _text(surface: str, kind: Explained, namespace: str, name: str) -> Text:
    def of_node(kernel: Kernel, setup: Setup, now: datetime) -> str | None:
        found = explain(kernel, setup.enabled, node_key(name), now)
        return as_text(found, now) if found is not None else None

    def of_budget(kernel: Kernel, setup: Setup, now: datetime) -> str | None:
        return budget_text(kernel, name, setup, now)

    def of_object(kernel: Kernel, setup: Setup, now: datetime) -> str | None:
        declaration = next(each.declaration for each in setup.enabled if each.declaration.name == surface)
        found = explain_listed(kernel, declaration, kind, Key("", kind.kind, namespace, name), now)
        return as_text(found, now) if found is not None else None

    return of_budget if surface == KERNEL else of_object if surface else of_node


async def _follow(setup: Setup, endpoint: Endpoint, surface: str, text_of: Text) -> None:
    transport = HttpTransport(endpoint, SystemClock())
    last = ""
    try:
        if not setup.together:
            setup = await narrowed(setup, transport)
        if surface and surface != KERNEL:
            setup = setup.with_surface(surface)
        with quiet():
            async with live_picture(setup, transport) as live:
                while True:
                    now = datetime.now(UTC)
                    text = text_of(live.kernel, setup, now) or "it does not exist"
                    if SPANS.sub("", text) != last:
                        last = SPANS.sub("", text)
                        click.echo(f"--- {now:%H:%M:%S} UTC\n{text}")
                    await live.wait(LOOK_EVERY)
                    live.settle()
    finally:
        await transport.close()
