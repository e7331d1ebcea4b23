"""`haulout plan`: forecasts on a virtual clock when each node will pass which state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import click
from click.core import ParameterSource

from haulout.cli import completions
from haulout.cli.options import cluster_options
from haulout.settings.settings import PlanSettings
from haulout.surfaces.registry import surfaces

# The most nodes and days that one computer can plan for, and the range of the virtual clock.
MOST_NODES, MOST_DAYS = 100_000, 3650
FIRST_YEAR, LAST_YEAR = 1970, 2999
STATES = ("operational", "maintenance-required", "in-maintenance")


def _label_options() -> dict[str, str]:
    """Return the name of the option that sets the label of a surface on every node, by surface."""
    return {each.name: each.node_label.option for each in surfaces() if each.node_label is not None}


def _node_labels(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that set the label of a surface on every node, to have the surface manage it."""
    for each in surfaces():
        if each.node_label is not None:
            option = click.option(f"--{each.node_label.option}", default="", metavar="NAME", help=each.node_label.help)
            command = option(command)
    return command


def _nodes(ctx: click.Context, param: click.Parameter, text: str) -> str:
    """Return the names or the selector of nodes unchanged. Raises BadParameter if the option is there but empty."""
    is_named = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    if is_named and not text.strip(" ,"):
        raise click.BadParameter("the name of a node is empty")
    return text


@click.command("plan", short_help="Forecast when each node enters and leaves maintenance.")
@click.option(
    "--config",
    default="",
    metavar="FILE",
    shell_complete=completions.files,
    help="haulout.yaml, or a maintenance.yaml of the original; the ones of this folder if not given.",
)
@click.option(
    "--nodes",
    default=None,
    type=click.IntRange(1, MOST_NODES),
    metavar="N",
    help="Plan for N made-up nodes instead of those of a cluster.",
)
@click.option(
    "--zones",
    default=3,
    type=click.IntRange(1, MOST_NODES),
    metavar="N",
    show_default=True,
    help="Number of zones of the made-up nodes.",
)
@_node_labels
@click.option(
    "--snapshot",
    default="",
    metavar="FILE",
    shell_complete=completions.files,
    help="Plan for the objects of `kubectl get nodes,... -o yaml`.",
)
@click.option(
    "--surfaces",
    default="",
    metavar="A,B",
    shell_complete=completions.surface_list,
    help="Plan for these surfaces instead of those in haulout.yaml.",
)
@click.option(
    "--maintain",
    default="",
    metavar="NODES",
    callback=_nodes,
    shell_complete=completions.nodes,
    help="Also plan a maintenance for each of these nodes: names such as a,b, or labels such as pool=blue.",
)
@click.option(
    "--work-for", default="1h", metavar="TIME", show_default=True, help="How long the work of each maintenance takes."
)
@click.option("--days", default=30.0, metavar="N", show_default=True, help="How far to look ahead.")
@click.option("--set", "labels", multiple=True, metavar="LABEL=VALUE", help="Set a label on every node at the start.")
@click.option(
    "--after",
    multiple=True,
    metavar="STATE=TIME:LABEL=VALUE",
    help="Simulate other programs: this long after a node enters STATE, set this label on it (LABEL- removes it).",
)
@click.option(
    "--at", default="", metavar="TIME", help="When the plan starts, such as 2026-04-01T12:00:00Z (default: now)."
)
@click.option("--seed", default=0, metavar="N", help="Seed of the random numbers.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@click.option(
    "--svg",
    default="",
    metavar="FILE",
    shell_complete=completions.files,
    help="Also write the plan to this file as SVG.",
)
@cluster_options
def command(**options: Any) -> PlanSettings:
    """Runs the operator's decisions on a virtual clock and prints when each node enters and leaves each state.

    It only reads the cluster. The plan includes workloads and budgets, and reschedules evicted pods. Checks that
    query other systems have no answer in a plan. Use --after to simulate what other programs or people do to nodes.
    """
    if not 0 < options["days"] <= MOST_DAYS:
        raise click.UsageError(f"--days: a plan looks ahead (a number above 0 and up to {MOST_DAYS})")
    labels = tuple(_pair(text, "--set") for text in options["labels"])
    at = _instant(options["at"])
    names = ("kubeconfig", "context", "namespace", "as_user", "as_groups")
    return PlanSettings(
        config=options["config"],
        nodes=options["nodes"] or 0,
        zones=options["zones"],
        node_labels={name: options[option] for name, option in _label_options().items() if options[option]},
        snapshot=options["snapshot"],
        days=options["days"],
        labels=labels,
        after=tuple(_done(text) for text in options["after"]),
        at=at,
        seed=options["seed"],
        output=options["output"],
        svg=options["svg"],
        cluster=tuple((name, options[name]) for name in names),
        surfaces=options["surfaces"],
        maintain=options["maintain"],
        work_for=_seconds(options["work_for"], "--work-for"),
    )


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"{option}: {text!r} is no label (LABEL=VALUE)")
    return name, value


def _done(text: str) -> tuple[str, float, str, str]:
    """Return state, seconds, label and value from an option `--after`. An empty value (`LABEL-`) removes the label."""
    state, _, rest = text.partition("=")
    span, _, label = rest.partition(":")
    if state not in STATES or not label:
        raise click.UsageError(f"--after: {text!r} is not STATE=TIME:LABEL=VALUE (states: {', '.join(STATES)})")
    seconds = _seconds(span, "--after")
    if label.endswith("-"):
        return state, seconds, label[:-1], ""
    return state, seconds, *_pair(label, "--after")


def _seconds(text: str, option: str) -> float:
    from haulout.base.duration import DurationError, parse

    try:
        seconds = parse(text).total_seconds()
    except DurationError as error:
        raise click.UsageError(f"{option}: {error} (a time such as 30m)") from None
    if seconds < 0:
        raise click.UsageError(f"{option}: {text} lies in the past (a time such as 30m)")
    return seconds


def _instant(text: str) -> str:
    try:
        instant = datetime.fromisoformat(text) if text else None
    except ValueError:
        instant = None
    if text and (instant is None or instant.tzinfo is None):
        raise click.UsageError(f"--at: {text!r} is no instant (2026-04-01T12:00:00Z)")
    if instant is not None and not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise click.UsageError(f"--at: {text} is too far away (from {FIRST_YEAR} to {LAST_YEAR})")
    return text
