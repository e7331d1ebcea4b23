"""What `haulout explain` knows of the machines under nodes: the files of ESX and Kubernikus, and what they await."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.store import Store
from haulout.cluster.view import FactDemand
from haulout.core.drain.options import PodRules
from haulout.kube.errors import KubeError
from haulout.kube.transport import Transport
from haulout.plugins.config import Config, ConfigProblem
from haulout.plugins.document import examine_file
from haulout.settings.nodemaintenance_options import pod_rules
from haulout.settings.settings import Settings
from haulout.surfaces.profiles import esx, kubernikus
from haulout.surfaces.profiles.load import line_of

C = TypeVar("C", bound=Config)


class Clouds(msgspec.Struct, frozen=True):
    """Those that are looked after; None: not this one."""

    esx: esx.Options | None = None
    kubernikus: kubernikus.Options | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, has in ((kubernikus.NAME, self.kubernikus), (esx.NAME, self.esx)) if has)


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


def clouds_of(settings: Settings) -> Clouds:
    """What a haulout.yaml switches on."""
    rules, paths = pod_rules(settings), (settings.esx, settings.kubernikus)
    on = [Path(each.config) if each.enabled else None for each in paths]
    return _read(*on, alone=False, rules=rules)


def clouds_beside(config: Path) -> Clouds:
    """The flags of a drop-in are not known here: its files, which nobody has without them, stand beside each other."""
    paths = [config.with_name(name) for name in ("esx.yaml", "kubernikus.yaml")]
    return _read(*(path if path.exists() else None for path in paths), alone=True, rules=PodRules())


def is_emptied(labels: dict[str, str]) -> bool:
    """For the sake of its machine."""
    return "true" in (labels.get(esx.OK_LABEL), labels.get(kubernikus.DELETE_LABEL))


async def know(clouds: Clouds, store: Store, transport: Transport) -> None:
    """Write what can be known without asking a cloud: its version, and hosts as nodes were last labelled."""
    if clouds.kubernikus is not None:
        store.write(await _version(transport))
    for fact in _hosts(store) if clouds.esx is not None else ():
        store.write(fact)


def _hosts(store: Store) -> Iterator[Value]:
    for row in store.table("", "Node").rows.values():
        if isinstance(row, NodeRow) and (seen := esx.last_seen(row)):
            demand, state = seen
            yield Value(key=demand.key, value=state, state="stale")


async def _version(transport: Transport) -> Value:
    key = FactDemand(kubernikus.VERSION_PROBE, "", kubernikus.SHORTEST_FOR).key
    try:
        reply = await transport.request("GET", "/version")
        return Value(key=key, value=msgspec.json.decode(reply.body, type=_Version).git_version, state="fresh")
    except (KubeError, msgspec.DecodeError) as error:
        return Value(key=key, error=f"failed to ask the API server for its version: {error}", state="stale")


def _read(of_esx: Path | None, of_kubernikus: Path | None, *, alone: bool, rules: PodRules) -> Clouds:
    machines = servers = None
    if of_esx is not None:
        # How to sign in is nothing to whoever only looks: passwords are in another environment than ours.
        read = _examined(esx.Esx, of_esx, but="vCenters", any_keys=True)
        machines = msgspec.structs.replace(esx.options_of(read), alone=alone, rules=rules)
    if of_kubernikus is not None:
        options = kubernikus.options_of(_examined(kubernikus.Kubernikus, of_kubernikus))
        servers = msgspec.structs.replace(options, alone=alone, rules=rules)
    return Clouds(machines, servers)


def _examined(kind: type[C], path: Path, *, but: str = "", any_keys: bool = False) -> C:
    source = str(path)
    try:
        reading, _ = examine_file(kind, _content(path), source=source, environment=os.environ, any_keys=any_keys)
    except ConfigProblem as problem:
        raise click.ClickException(str(line_of(problem, source, is_error=True))) from None
    wrong = [problem for problem in reading.problems if problem.path[:1] != (but,)]
    if wrong:
        raise click.ClickException("\n".join(str(line_of(problem, source, is_error=True)) for problem in wrong))
    return reading.value


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
