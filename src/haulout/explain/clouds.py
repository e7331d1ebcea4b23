"""The part of `haulout explain` for ESX and Kubernikus: their files, and the facts that their decisions read."""

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
from haulout.plugins.file_lint import line_of
from haulout.settings.context import pod_rules
from haulout.settings.settings import Settings
from haulout.surfaces.esx import options as esx
from haulout.surfaces.esx.vcenter import last_seen
from haulout.surfaces.esx.wire import NAME as ESX
from haulout.surfaces.esx.wire import OK_LABEL
from haulout.surfaces.kubernikus import options as kubernikus
from haulout.surfaces.kubernikus.wire import DELETE_LABEL, VERSION_PROBE
from haulout.surfaces.kubernikus.wire import NAME as KUBERNIKUS
from haulout.surfaces.profiles.settings import ProfilesSettings

C = TypeVar("C", bound=Config)


class Clouds(msgspec.Struct, frozen=True):
    """The options of ESX and Kubernikus; None for one that is not enabled."""

    esx: esx.Options | None = None
    kubernikus: kubernikus.Options | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, has in ((KUBERNIKUS, self.kubernikus), (ESX, self.esx)) if has)


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


def clouds_of(settings: Settings) -> Clouds:
    """Return those that a haulout.yaml switches on."""
    profiles = settings.of(ProfilesSettings) or ProfilesSettings()
    rules, paths = pod_rules(settings), (profiles.esx, profiles.kubernikus)
    on = [Path(each.config) if each.enabled else None for each in paths]
    return _read(*on, alone=False, rules=rules)


def clouds_beside(config: Path) -> Clouds:
    """Return those whose files stand beside `maintenance.yaml`: the flags of a drop-in are not known here."""
    paths = [config.with_name(name) for name in ("esx.yaml", "kubernikus.yaml")]
    return _read(*(path if path.exists() else None for path in paths), alone=True, rules=PodRules())


def is_emptied(labels: dict[str, str]) -> bool:
    """Whether the labels of a node ask for it to be emptied, because its virtual machine or server is to go."""
    return "true" in (labels.get(OK_LABEL), labels.get(DELETE_LABEL))


async def know(clouds: Clouds, store: Store, transport: Transport) -> None:
    """Write what can be known without asking a cloud: its version, and hosts as nodes were last labelled."""
    if clouds.kubernikus is not None:
        store.write(await _version(transport))
    for fact in _hosts(store) if clouds.esx is not None else ():
        store.write(fact)


def _hosts(store: Store) -> Iterator[Value]:
    for row in store.table("", "Node").rows.values():
        if isinstance(row, NodeRow) and (seen := last_seen(row)):
            demand, state = seen
            yield Value(key=demand.key, value=state, state="stale")


async def _version(transport: Transport) -> Value:
    key = FactDemand(VERSION_PROBE, "", kubernikus.SHORTEST_FOR).key
    try:
        reply = await transport.request("GET", "/version")
        return Value(key=key, value=msgspec.json.decode(reply.body, type=_Version).git_version, state="fresh")
    except (KubeError, msgspec.DecodeError) as error:
        return Value(key=key, error=f"failed to ask the API server for its version: {error}", state="stale")


def _read(of_esx: Path | None, of_kubernikus: Path | None, *, alone: bool, rules: PodRules) -> Clouds:
    hosts = servers = None
    if of_esx is not None:
        # Credentials are not needed here, and their variables are set only in the operator's environment.
        read = _examined(esx.Esx, of_esx, but="vCenters", any_keys=True)
        hosts = msgspec.structs.replace(esx.options_of(read), alone=alone, rules=rules)
    if of_kubernikus is not None:
        options = kubernikus.options_of(_examined(kubernikus.Kubernikus, of_kubernikus))
        servers = msgspec.structs.replace(options, alone=alone, rules=rules)
    return Clouds(hosts, servers)


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
