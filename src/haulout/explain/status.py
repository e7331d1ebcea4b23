"""`haulout status` and `haulout wait`: print the state of a fleet, follow it, or wait until a node is in a state."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from haulout import __version__
from haulout.base.clock import SystemClock
from haulout.base.collector import without_collector
from haulout.base.visible import page
from haulout.cluster.store import Listing
from haulout.core.budgets.decisions import BUDGETS
from haulout.core.logbook.wire import RECORDS
from haulout.explain.documents import StatusDocument, as_json
from haulout.explain.fleet import IN_SERVICE, OUT, Fleet, fleet_of
from haulout.explain.fleet_picture import fleet_lines, installation_lines, wrapped_lines
from haulout.explain.home import home_endpoint
from haulout.explain.installation import Installation, installation_of
from haulout.explain.live import LivePicture, live_picture
from haulout.explain.operators import OperatorState, operator_lines, operator_state
from haulout.explain.paint import echo
from haulout.explain.setup import Setup, declaration_of, setup_of
from haulout.explain.snapshot import LIST_WITHIN, has_objects, quiet
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from haulout.kube.transport import Transport
from haulout.runtime.interruption import run_command
from haulout.surfaces import registry

NOTHING_WAITS, BROKEN, BLOCKED = 0, 1, 3
TIMED_OUT = 4
ZONE = "topology.kubernetes.io/zone"
# Without a change of the cluster the state is shown again after this time, because the times in it have moved.
LOOK_EVERY = 10.0
# An operator that was released is usually replaced within seconds, as by an upgrade. `wait` does not give up before.
HANDOVER_FOR = 15.0


class Request(msgspec.Struct, frozen=True):
    """The options of `haulout status`."""

    config: str = ""
    group_by: str = ZONE
    output: str = "text"
    watch: bool = False
    exit_code: bool = False


def show_status(request: Request, cluster: Mapping[str, Any]) -> int:
    """Print the state of the fleet, once or for as long as it is watched. Return the exit code."""
    return _run(request.config, cluster, lambda setup, endpoint: _status(request, setup, endpoint))


def wait_for(node: str, state: str, timeout: float, config: str, cluster: Mapping[str, Any]) -> int:
    """Wait until a node is `maintained`, has `returned` or is `blocked`. Return the exit code."""
    return _run(config, cluster, lambda setup, endpoint: _wait(node, state, timeout, setup, endpoint))


def _run(config: str, cluster: Mapping[str, Any], work: Any) -> int:
    endpoint = home_endpoint(cluster, config)
    try:
        code: int = run_command(work(setup_of(config, endpoint, is_lenient=True), endpoint))
    except (KubeError, TimeoutError, BaseExceptionGroup) as error:
        # A TaskGroup raises the error of a task as an ExceptionGroup.
        cause = _first(error)
        if isinstance(cause, KubeError):
            raise click.ClickException(f"{endpoint.server} cannot be read: {cause}") from None
        if isinstance(cause, TimeoutError):
            text = f"{endpoint.server} did not list its nodes within {LIST_WITHIN:g} s"
            raise click.ClickException(text) from None
        raise cause from None
    return code


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _status(request: Request, setup: Setup, endpoint: Endpoint) -> int:
    async with _following(setup, endpoint) as (live, transport):
        if request.watch:
            from haulout.explain.status_watch import StatusWatch

            await StatusWatch(live, setup, request.group_by, transport).run()
            return NOTHING_WAITS
        fleet, installation = fleet_now(live, setup, request.group_by), await read_installation(setup, transport)
        text = _text(fleet, installation, request)
        if request.output == "text":
            echo(text)
        else:
            click.echo(text)
        return BROKEN if setup.is_broken else _code(fleet, installation, request)


async def _wait(node: str, state: str, timeout: float, setup: Setup, endpoint: Endpoint) -> int:
    async with _following(setup, endpoint) as (live, transport):
        clock = SystemClock()
        end = clock.monotonic() + timeout
        gives_up = min(end, clock.monotonic() + HANDOVER_FOR)
        reported: set[str] = set()
        while True:
            operator = await operator_state(setup, transport, clock.now)
            if operator.stands_still:
                for text in (text for text in operator_lines(operator, clock.now()) if text not in reported):
                    click.echo(text, err=True)
                    reported.add(text)
            fleet = fleet_now(live, setup)
            for text in (text for text in fleet.incomplete if text not in reported):
                click.echo(f"INCOMPLETE: {text}", err=True)
            reported.update(fleet.incomplete)
            found = next((each for each in fleet.nodes if each.name == node), None)
            if found is None:
                raise click.ClickException(f"there is no node named {node}")
            works = [work for work in fleet.works if work.node == node]
            keeps = [text for work in works for text in work.waits_for]
            # After a failed drain pods may be left, although nothing blocks them any more.
            failed = [each.text for each in fleet.failures if each.node == node]
            reached = {
                "maintained": found.state == OUT and not keeps and not failed,
                "returned": found.state == IN_SERVICE and not works,
                "blocked": bool(keeps),
            }
            verb = "has" if state == "returned" else "is"
            if reached[state] and state != "blocked" and fleet.incomplete:
                # An object that we may not read may hold the node.
                click.echo(f"it is unknown whether node {node} {verb} {state}: not everything can be read", err=True)
                return BROKEN
            # What no operator follows any more may have changed since: pods may have come back.
            if reached[state] and not operator.stands_still:
                click.echo(f"node {node} {verb} {state}" + (f": {keeps[0]}" if state == "blocked" else ""))
                return 0
            remaining = end - clock.monotonic()
            if operator.stands_still and (clock.monotonic() >= gives_up or not _may_come(operator, clock.now())):
                return BROKEN
            if remaining <= 0:
                why = f", it waits: {keeps[0]}" if keeps else f": {failed[0]}" if failed else ""
                click.echo(f"node {node} is {found.state} after {timeout:g} s, not {state}{why}", err=True)
                return TIMED_OUT
            await live.wait(min(remaining, LOOK_EVERY))
            live.settle()


def _may_come(operator: OperatorState, now: datetime) -> bool:
    """Whether an operator may be about to lead: the next replica after a release of the Lease, or the first one ever."""
    return operator.since is None or (now - operator.since).total_seconds() < HANDOVER_FOR


@contextlib.asynccontextmanager
async def _following(setup: Setup, endpoint: Endpoint) -> AsyncIterator[tuple[LivePicture, HttpTransport]]:
    transport = HttpTransport(endpoint, SystemClock())
    try:
        # One plain request first: a reflector would retry a failure without an error.
        await transport.request("GET", "/api/v1/nodes", query={"limit": "1"})
        with quiet():
            async with live_picture(setup, transport) as live:
                yield live, transport
    finally:
        await transport.close()


def fleet_now(live: LivePicture, setup: Setup, group_by: str = ZONE) -> Fleet:
    """Return the state of the fleet, as a live picture shows it now."""
    declarations = [each.declaration for each in setup.enabled]
    with without_collector():
        fleet = fleet_of(live.kernel, declarations, live.kinds, group_by, datetime.now(UTC))
    return msgspec.structs.replace(
        fleet, incomplete=(*setup.unread, *fleet.incomplete), not_served=tuple(_not_served(live, setup))
    )


def _not_served(live: LivePicture, setup: Setup) -> Iterator[str]:
    """Yield the definitions of kinds that surfaces need and the cluster does not serve.

    The table of such a kind counts as listed, but its list has no resource version.
    """
    brought = {name for each in registry.all_declarations() for name in each.crds}
    declarations = [*(each.declaration for each in setup.enabled), *([BUDGETS] if setup.together else [])]
    for kind in (kind for each in declarations for kind in each.kinds if kind.plural in brought):
        table = live.kernel.store.table("", kind.kind)
        if table.listing is Listing.LISTED and not table.version and kind.kind in live.kinds:
            yield _definition(kind.path)


async def read_installation(setup: Setup, transport: Transport) -> Installation:
    """Read the installation of the operator that this setup describes."""
    declared = registry.all_declarations()
    names = [each.declaration.surface for each in setup.enabled]
    used = [each for each in declared if each.name in names or each.name == "kernel"]
    kinds = [kind for each in setup.enabled for kind in each.declaration.kinds]
    own = {crd for each in used for crd in each.crds}
    kinds += [RECORDS] if setup.together else []
    definitions = [_definition(kind.path) for kind in kinds if _definition(kind.path).partition(".")[0] in own]
    webhooks = [webhook.configuration for each in used for webhook in each.webhooks]
    operator = await operator_state(setup, transport, SystemClock().now, others=await _others(setup, transport))
    found = await installation_of(transport, __version__, setup.names, definitions, webhooks, operator)
    return msgspec.structs.replace(found, settings=setup.origin)


async def _others(setup: Setup, transport: Transport) -> list[str]:
    """Return the surfaces that the settings do not switch on although there are objects of their kinds."""
    found = []
    for each in registry.surfaces():
        if each.crds and not (setup.together and each.name in setup.names):
            declaration = declaration_of(each)
            own = [kind for kind in declaration.kinds if kind.plural in each.crds and kind.kind in declaration.explains]
            if any([await has_objects(kind, transport) for kind in own]):
                found.append(each.name)
    return found


def _definition(path: str) -> str:
    """Return the name of a CustomResourceDefinition from the API path of its kind, /apis/GROUP/VERSION/PLURAL."""
    _, _, group, _, plural, *_ = [*path.split("/"), "", "", "", ""]
    return f"{plural}.{group}"


def _text(fleet: Fleet, installation: Installation, request: Request) -> str:
    if request.output == "text":
        width = shutil.get_terminal_size((120, 24)).columns
        installed = wrapped_lines(installation_lines(installation, fleet.at), width)
        return page([*fleet_lines(fleet, width, operator=installation.operator), "", *installed])
    document = StatusDocument(fleet, installation)
    if request.output == "json":
        return as_json(document)
    import yaml

    text: str = yaml.safe_dump(msgspec.to_builtins(document), sort_keys=False, width=120)
    return text.rstrip("\n")


def _code(fleet: Fleet, installation: Installation, request: Request) -> int:
    if not request.exit_code:
        return 0
    if fleet.incomplete or fleet.failures or installation.operator.is_wrong:
        return BROKEN
    return BLOCKED if fleet.is_blocked else NOTHING_WAITS
