"""Shell completion of names: nodes, objects, contexts, surfaces and originals.

Modules are imported only when a name is completed. If the cluster cannot be read, there are no candidates and no error,
because a shell shows none during completion.
"""

from __future__ import annotations

from collections.abc import Mapping

import click
from click.shell_completion import CompletionItem

WITHIN = 2.0
MOST = "500"
# Commands that use kubectl's cluster. All others use the cluster that the operator's settings name.
LIKE_KUBECTL = ("drain", "uncordon")


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def nodes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of nodes that begin with the typed word. If it begins with `node/`, so do the candidates."""
    prefix = "node/" if incomplete.startswith("node/") else ""
    return [f"{prefix}{name}" for name in _names(ctx, "/api/v1/nodes") if f"{prefix}{name}".startswith(incomplete)]


def explain_targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return candidates for the arguments of `explain`: a kind and then a name of that kind, or a node."""
    from haulout.explain.kinds import NODE, kinds

    words = ctx.params.get(param.name or "") or ()
    if not words:
        first = dict.fromkeys(each.words[0] for _, each in kinds().values())
        return [*(word for word in first if word.startswith(incomplete)), *nodes(ctx, param, incomplete)]
    _, kind = kinds().get(str(words[0]), ("", NODE))
    return [name for name in _names(ctx, _path(kind.kind)) if name.startswith(incomplete)]


def act_targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return candidates for the object of an act: a kind with a slash, and then the objects of that kind."""
    from haulout.acts.declared import kind_named, kinds_of_acts

    word, slash, _ = incomplete.partition("/")
    if not slash:
        first = dict.fromkeys(each.kind.lower() for each in kinds_of_acts().values())
        return [f"{each}/" for each in first if each.startswith(word.lower())]
    kind = kind_named(word)
    names = _names(ctx, kind.path()) if kind is not None else []
    return [f"{word}/{name}" for name in names if f"{word}/{name}".startswith(incomplete)]


def surfaces(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of surfaces that begin with the typed word."""
    from haulout.surfaces.registry import KERNEL
    from haulout.surfaces.registry import surfaces as known

    return [name for name in (KERNEL, *(each.name for each in known())) if name.startswith(incomplete)]


def surface_list(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return candidates for a list of surfaces with commas: the typed list, with its last name completed."""
    from haulout.surfaces.registry import surfaces as known

    begun, comma, last = incomplete.rpartition(",")
    return [f"{begun}{comma}{each.name}" for each in known() if not each.within and each.name.startswith(last)]


def originals(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of originals that begin with the typed word."""
    from haulout.surfaces.registry import originals as known
    from haulout.surfaces.registry import programs

    return [name for name in (*known(), *programs()) if name.startswith(incomplete)]


def contexts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the contexts of the kubeconfig that begin with the typed word."""
    import os
    from pathlib import Path

    from haulout.base import yaml

    named = str(_options(ctx)["kubeconfig"] or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
    found: list[str] = []
    for path in named.split(os.pathsep):
        try:
            data = yaml.load(Path(path).read_bytes())
            found += [str(each["name"]) for each in data.get("contexts") or ()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YamlError):
            continue
    return [name for name in dict.fromkeys(found) if name.startswith(incomplete)]


def _path(kind: str) -> str:
    """Return the API path that lists a kind in all namespaces."""
    from haulout.cluster.project import RESOURCES
    from haulout.core.budgets.decisions import BUDGETS
    from haulout.explain.setup import declaration_of
    from haulout.surfaces.registry import surfaces as known

    resources = [*RESOURCES.values(), *BUDGETS.kinds, *(each for one in known() for each in declaration_of(one).kinds)]
    return next((each.path for each in resources if each.kind == kind), "/api/v1/nodes")


def _options(ctx: click.Context) -> Mapping[str, str]:
    """Return the options that name the cluster, found in the same way as by the command that is completed."""
    from haulout.explain.home import home_options

    options = {name: str(ctx.params.get(name) or "") for name in ("kubeconfig", "context", "namespace")}
    if ctx.command.name in LIKE_KUBECTL:
        return options
    return home_options(options, str(ctx.params.get("config") or ""))


def _names(ctx: click.Context, path: str) -> list[str]:
    from haulout.kube.config import load
    from haulout.kube.errors import KubeError
    from haulout.runtime.interruption import run_command

    options = _options(ctx)
    try:
        endpoint = load(path=options["kubeconfig"], context=options["context"], namespace=options["namespace"])
        return run_command(_listed(endpoint, path))
    except (KubeError, OSError, TimeoutError, ValueError):
        return []


async def _listed(endpoint: object, path: str) -> list[str]:
    import asyncio

    import msgspec

    from haulout.base.clock import SystemClock
    from haulout.kube.endpoint import Endpoint
    from haulout.kube.http import HttpTransport
    from haulout.kube.transport import METADATA_ONLY

    assert isinstance(endpoint, Endpoint)
    transport = HttpTransport(endpoint, SystemClock())
    accept = METADATA_ONLY.replace("PartialObjectMetadata;", "PartialObjectMetadataList;")
    try:
        async with asyncio.timeout(WITHIN):
            reply = await transport.request("GET", path, query={"limit": MOST}, accept=f"{accept},application/json")
    finally:
        await transport.close()
    items = msgspec.json.decode(reply.body).get("items") or ()
    return sorted(_name(each.get("metadata") or {}) for each in items)


def _name(metadata: dict[str, str]) -> str:
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata.get('name', '')}" if namespace else metadata.get("name", "")
