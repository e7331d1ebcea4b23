"""Takes one picture of a cluster, lets the decisions settle on it without acting, and prints what they say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from haulout.base import yaml
from haulout.base.clock import SystemClock
from haulout.cli.settings_file import SettingsProblem, read_settings
from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.store import Listing
from haulout.cluster.view import CONFIG
from haulout.core.arbiter import Rules, arbiter
from haulout.core.cordon import ledger
from haulout.core.decision import Decision
from haulout.core.holds import HOLDS_OF_NODE, Hold
from haulout.core.reason import Reason, roots
from haulout.kube.config import load as load_endpoint
from haulout.kube.endpoint import Endpoint, Impersonation
from haulout.kube.errors import KubeError
from haulout.kube.http import HttpTransport
from haulout.plugins.config import ConfigProblem
from haulout.runtime.kernel import Kernel
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump
from haulout.runtime.rooms import Subject
from haulout.surfaces.profiles.engine import Config
from haulout.surfaces.profiles.load import load
from haulout.surfaces.profiles.surface import DECIDER, keeps, known_plugins

LIST_WITHIN = 60.0
PASSING = frozenset({"check-passes", "goes"})


def explain_node(name: str, config: str, output: str, cluster: Mapping[str, Any]) -> int:
    try:
        path = profiles_file(config)
        loaded = load(Path(path).read_bytes(), known_plugins(), source=path, environment=os.environ)
        kernel = asyncio.run(_picture(loaded, endpoint_of(cluster)))
    except (KubeError, ConfigProblem, SettingsProblem, yaml.YamlError, OSError) as error:
        raise click.ClickException(str(error)) from None
    except TimeoutError:
        raise click.ClickException(f"the cluster did not list its nodes within {LIST_WITHIN:g} s") from None
    key = node_key(name)
    if kernel.store.row(key) is None:
        raise click.ClickException(f"there is no node named {name}")
    now = datetime.now(UTC)
    decision = kernel.loop.explain(Subject(DECIDER.name, key), now)
    click.echo(_as_json(kernel, key, decision) if output == "json" else "\n".join(_as_text(kernel, key, decision, now)))
    return 0


def profiles_file(given: str) -> str:
    """The profiles' configuration: the file itself, or the one that a haulout.yaml names."""
    path = Path(given) if given else Path("haulout.yaml")
    if not given and not path.exists():
        return "config/maintenance.yaml"
    data = path.read_bytes()
    tree = yaml.parse(data)
    if isinstance(tree, yaml.Mapping) and "surfaces" in tree.entries:
        return read_settings(data, str(path), os.environ, {}, "").profiles_config
    return str(path)


def endpoint_of(cluster: Mapping[str, Any]) -> Endpoint:
    """From the options that commands share."""
    endpoint = load_endpoint(path=cluster["kubeconfig"], context=cluster["context"], namespace=cluster["namespace"])
    user, groups = cluster["as_user"], tuple(cluster["as_groups"])
    if groups and not user:
        raise click.UsageError("--as-group needs --as: groups are impersonated together with a user")
    return msgspec.structs.replace(endpoint, impersonate=Impersonation(user, groups)) if user else endpoint


async def _picture(loaded: Config, endpoint: Endpoint) -> Kernel:
    """Everything that the decisions read, listed once, and their claims and grants worked out."""
    kernel = Kernel([DECIDER, arbiter(Rules((DECIDER.name,)))])
    kernel.actor.may_write = lambda: False
    kernel.store.write(Value(key=Key("", CONFIG, "", DECIDER.name), value=loaded))
    changed = asyncio.Event()
    clock = SystemClock()
    transport = HttpTransport(endpoint, clock)
    pump = Pump(kernel.store, clock, Metrics(), changed.set)
    try:
        # Asked once by itself: what a reflector retries in silence is an error for whoever waits at a terminal.
        await transport.request("GET", pump.resource("Node").path, query={"limit": "1"})
        async with asyncio.timeout(LIST_WITHIN), asyncio.TaskGroup() as group:
            pump.open(group, transport, "", "Node", keeps(loaded))
            while kernel.store.table("", "Node").listing is not Listing.LISTED:
                changed.clear()
                await changed.wait()
            pump.close_all()
    finally:
        await transport.close()
    kernel.run(clock.now())
    return kernel


def _as_text(kernel: Kernel, key: Key, decision: Decision, now: datetime) -> list[str]:
    row = kernel.store.row(key)
    assert isinstance(row, NodeRow)
    flags = [word for word, holds in (("cordoned", row.unschedulable), ("not ready", not row.ready)) if holds]
    lines = [f"node {key.name}" + (f" ({', '.join(flags)})" if flags else "")]
    entry = ledger(row)
    if entry is not None:
        lines.append(
            f"  cordoned by {', '.join(entry.by) or 'the surfaces that hold it'}; before: {'cordoned' if entry.before else 'not'}"
        )
    for hold in _holds(kernel, key):
        state = "works on it" if hold.claim.begun else "waits"
        lines.append(f"  held by {hold.surface} {hold.claim.slot}: {state}")
    for reason in decision.reasons:
        lines += _tree(reason, now, "  ")
    todo = [root for reason in decision.reasons for root in roots(reason) if root.code not in PASSING]
    if todo:
        lines.append("what keeps it:")
        lines += [f"  {_line(root, now)}" for root in dict.fromkeys(todo)]
    return lines


def _tree(reason: Reason, now: datetime, indent: str) -> list[str]:
    lines = [f"{indent}{_line(reason, now)}"]
    for cause in reason.because:
        lines += _tree(cause, now, indent + "  ")
    return lines


def _line(reason: Reason, now: datetime) -> str:
    if reason.until is None:
        return reason.text or reason.code
    left = max((reason.until - now).total_seconds(), 0)
    return f"{reason.text or reason.code}, until {reason.until:%Y-%m-%d %H:%M:%S} UTC (in {left:.0f} s)"


def _holds(kernel: Kernel, key: Key) -> list[Hold]:
    rows: list[Row] = kernel.store.bucket(HOLDS_OF_NODE, key.cluster, key)
    return [row for row in rows if isinstance(row, Hold)]


def _as_json(kernel: Kernel, key: Key, decision: Decision) -> str:
    holds = [
        {
            "surface": hold.surface,
            "slot": hold.claim.slot,
            "begun": hold.claim.begun,
            "since": hold.claim.since,
            "wants": sorted(want.value for want in hold.claim.wants),
        }
        for hold in _holds(kernel, key)
    ]
    body = {"node": key.name, "holds": holds, "reasons": [_plain(reason) for reason in decision.reasons]}
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()


def _plain(reason: Reason) -> dict[str, Any]:
    plain: dict[str, Any] = {"code": reason.code, "text": reason.text}
    if reason.until is not None:
        plain["until"] = reason.until
    if reason.because:
        plain["because"] = [_plain(cause) for cause in reason.because]
    return plain
