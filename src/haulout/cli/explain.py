"""`haulout explain`: prints which surfaces hold a node, what it waits for, and what would have to change."""

from __future__ import annotations

import click

from haulout.cli import completions
from haulout.cli.options import cluster_options, config_option
from haulout.core.surface import Explained
from haulout.explain.kinds import NODE, kinds


def _help() -> str:
    named = {kind.words[0]: kind.is_namespaced for _, kind in kinds().values() if kind is not NODE}
    places = ", ".join(
        f"{word} {'NAMESPACE/NAME' if is_namespaced else 'NAME'}" for word, is_namespaced in named.items()
    )
    return (
        "Runs the operator's decisions about NODE against the live cluster, and prints their reasons.\n\n"
        f"KIND NAME explains another object: {places}. With -n, you can omit NAMESPACE. "
        "If the object is about a node, that node is explained too.\n\n"
        "It changes nothing and uses the operator's settings."
    )


@click.command("explain", help=_help(), short_help="Explain what a node is waiting for, and why.")
@click.argument("words", nargs=-1, metavar="NODE | KIND [NAMESPACE/]NAME", shell_complete=completions.explain_targets)
@config_option
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@click.option("-w", "--watch", is_flag=True, help="Keep running, and print again when something changes.")
@cluster_options
def command(words: tuple[str, ...], config: str, output: str, watch: bool, **cluster: str) -> int:
    """Print the explanation of a node or of another object."""
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
    """Return the surface, the kind and the name of the object to explain.

    One argument names a node, two are KIND NAME. KIND/NAME is understood, too, as kubectl does.
    """
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
