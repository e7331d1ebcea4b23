"""`haulout explain`: who holds a node, what it waits for, and what would have to change."""

from __future__ import annotations

import click

from haulout.cli import completions
from haulout.cli.options import cluster_options, config_option
from haulout.core.surface import Explained


@click.command("explain", short_help="Say what a node waits for, and why.")
@click.argument("words", nargs=-1, metavar="NODE | KIND [NAMESPACE/]NAME", shell_complete=completions.explained)
@config_option
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
@click.option("-w", "--watch", is_flag=True, help="Stay, and print it anew when it changes.")
@cluster_options
def command(words: tuple[str, ...], config: str, output: str, watch: bool, **cluster: str) -> int:
    """Runs the decisions about NODE against the cluster as it is now, and prints their reasons.

    KIND NAME asks about another object, with kubectl's names of kinds: `explain nm NAME` about a NodeMaintenance,
    `explain machine NAMESPACE/NAME`, or NAME with -n, about a Machine of Cluster API, and about its Node in the workload cluster.
    `explain ndb NAME` says which nodes take the places of a NodeDisruptionBudget, what waits for it and when it opens.
    `explain notifymaintenance NAMESPACE/NAME` says which rule applies to a NotifyMaintenance, and who has to act.
    Nothing is changed. The settings are the operator's, so that the operator decides the same.
    """
    from haulout.explain.snapshot import explain_object
    from haulout.surfaces.registry import load

    surface, kind, name = _meant(words)
    if kind.is_namespaced:
        namespace, _, name = name.rpartition("/")
        cluster |= {"namespace": namespace} if namespace else {}
    if watch:
        from haulout.explain.follow import follow_object

        if output != "text":
            raise click.UsageError("--watch prints text; without it, -o json prints a document")
        return follow_object(surface, kind, name, config, cluster)
    if kind.command:
        done: int = load(kind.command)(name, config, output, cluster)
        return done
    return explain_object(surface, kind, name, config, output, cluster)


def _meant(words: tuple[str, ...]) -> tuple[str, Explained, str]:
    """Return the surface, the kind and the name that are meant. One word is a node; KIND/NAME is taken too, as kubectl does."""
    from haulout.explain.kinds import NODE, kinds

    if len(words) == 1 and "/" in words[0]:
        words = tuple(words[0].split("/", 1))
    if words and not words[-1].strip():
        raise click.UsageError("the name is empty")
    match words:
        case ():
            raise click.UsageError("Missing argument 'NODE'.")
        case (name,):
            return "", NODE, name
        case (kind, name):
            known = kinds()
            if kind.lower() not in known:
                there = dict.fromkeys(each.words[0] for _, each in known.values())
                raise click.UsageError(f"{kind!r} cannot be explained (there are: {', '.join(there)})")
            return *known[kind.lower()], name
        case _:
            raise click.UsageError(f"Got unexpected extra arguments ({' '.join(words[2:])})")
