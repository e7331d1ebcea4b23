"""Takes one picture of a cluster, lets the decisions settle on it without acting, and prints what they say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from haulout.base import yaml
from haulout.base.clock import SystemClock
from haulout.cli.explanation import as_json, as_text, explain
from haulout.cli.settings_file import SettingsProblem, read_settings
from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import Value
from haulout.cluster.store import Listing
from haulout.cluster.view import CONFIG
from haulout.core.arbiter import Rules, arbiter
from haulout.kube.config import load as load_endpoint
from haulout.kube.endpoint import Endpoint, impersonation
from haulout.kube.errors import ApiError, KubeError, Unauthorized
from haulout.kube.http import HttpTransport
from haulout.plugins.load import PluginProblem
from haulout.runtime.kernel import Kernel
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump
from haulout.surfaces.profiles.engine import Config
from haulout.surfaces.profiles.load import load, problems
from haulout.surfaces.profiles.surface import DECIDER, DECIDERS, OWN_KINDS, known_plugins, sources

LIST_WITHIN = 60.0


def explain_node(name: str, config: str, output: str, cluster: Mapping[str, Any]) -> int:
    endpoint = endpoint_of(cluster)
    try:
        kernel = asyncio.run(_picture(read_config(profiles_file(config)), endpoint))
    except Unauthorized as error:
        raise click.ClickException(str(error)) from None
    except ApiError as error:
        raise click.ClickException(f"{endpoint.server} does not list its nodes: {error}") from None
    except KubeError as error:
        raise click.ClickException(f"nodes cannot be listed: {error}") from None
    except TimeoutError:
        raise click.ClickException(f"{endpoint.server} did not list its nodes within {LIST_WITHIN:g} s") from None
    now = datetime.now(UTC)
    found = explain(kernel, DECIDER.name, node_key(name), now)
    if found is None:
        raise click.ClickException(f"there is no node named {name}")
    click.echo(as_json(found) if output == "json" else as_text(found, now))
    return 0


def profiles_file(given: str) -> str:
    """The profiles' configuration: the file itself, or the one that a haulout.yaml names."""
    path = Path(given or "haulout.yaml")
    if not given and not path.exists():
        return "config/maintenance.yaml"
    data = _content(path)
    if given and not _is_settings(data):
        return given
    try:
        return read_settings(data, str(path), os.environ, {}, "").profiles_config
    except SettingsProblem as problem:
        raise click.ClickException(str(problem)) from None


def read_config(path: str) -> Config:
    """The configuration, or everything that is wrong with it."""
    data = _content(Path(path))
    try:
        plugins = known_plugins()
    except PluginProblem as problem:
        raise click.ClickException(str(problem)) from None
    found = problems(data, plugins, source=path, environment=os.environ)
    if wrong := [str(line) for line in found if line.is_error]:
        raise click.ClickException("\n".join(wrong))
    return load(data, plugins, source=path, environment=os.environ)


def endpoint_of(cluster: Mapping[str, Any]) -> Endpoint:
    """From the options that commands share."""
    try:
        return load_endpoint(
            path=cluster["kubeconfig"],
            context=cluster["context"],
            namespace=cluster["namespace"],
            impersonate=impersonation(cluster["as_user"], cluster["as_groups"]),
        )
    except KubeError as error:
        raise click.ClickException(str(error)) from None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None


def _is_settings(data: bytes) -> bool:
    """What is no YAML at all is for the profiles' own reader to complain about."""
    try:
        tree = yaml.parse(data)
    except yaml.YamlError:
        return False
    return isinstance(tree, yaml.Mapping) and "surfaces" in tree.entries


async def _picture(loaded: Config, endpoint: Endpoint) -> Kernel:
    """Everything that the decisions read, listed once, and their claims and grants worked out.

    What the kernel then wants sent is taken by nobody: whoever would go counts as on its way, and nothing happens.
    """
    kernel = Kernel([*DECIDERS, arbiter(Rules((DECIDER.name,)))])
    kernel.store.write(Value(key=Key("", CONFIG, "", DECIDER.name), value=loaded))
    changed = asyncio.Event()
    clock = SystemClock()
    transport = HttpTransport(endpoint, clock)
    pump = Pump(kernel.store, clock, Metrics(), changed.set, OWN_KINDS)
    kinds = {source.kind: source.keep for source in sources(loaded)}
    try:
        # Asked once by itself: what a reflector retries in silence is an error for whoever waits at a terminal.
        await transport.request("GET", pump.resource("Node").path, query={"limit": "1"})
        async with asyncio.timeout(LIST_WITHIN), asyncio.TaskGroup() as group:
            for kind, keep in kinds.items():
                pump.open(group, transport, "", kind, keep)
            while any(kernel.store.table("", kind).listing is Listing.WAITING for kind in kinds):
                changed.clear()
                await changed.wait()
            pump.close_all()
    finally:
        await transport.close()
    kernel.run(clock.now())
    return kernel
