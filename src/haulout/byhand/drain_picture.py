"""Prints a drain by hand: as a live picture, as plain lines, as a summary of what is left, and as a JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from haulout.base.visible import page
from haulout.byhand.drain_state import CODES, DrainOutcome, DrainState, NodeState
from haulout.core.drain.causes import PACED, Cause

MOST_PODS = 4
# At least this many nodes and one cause are shown, however many causes there are.
FEWEST_NODES = 3
BAR, SHORTEST_BAR, SHORTEST_TEXT = 30, 8, 20
STYLES = {
    DrainOutcome.DONE: "green",
    DrainOutcome.BLOCKED: "red",
    DrainOutcome.FAILED: "red",
    DrainOutcome.TIMED_OUT: "red",
}
ENDS = {
    DrainOutcome.BLOCKED: "blocked",
    DrainOutcome.TIMED_OUT: "timed out",
    DrainOutcome.FAILED: "failed",
    DrainOutcome.INTERRUPTED: "interrupted",
}


def draw_drain(state: DrainState, width: int, height: int) -> RenderableType:
    """Draw a drain for a terminal of this size. Causes and the total are always shown; nodes that do not fit are counted."""
    done = sum(node.outcome is DrainOutcome.DONE for node in state.nodes)
    total = Text(f"{done} of {len(state.nodes)} nodes drained, {state.seconds:.0f} s", style="dim")
    # An empty line and the total, and the line where the cursor stands.
    room = height - 3
    causes = _causes(state.causes, width, room - min(len(state.nodes), FEWEST_NODES) - 1)
    return Group(*_bars(state.nodes, width, room - _height(causes, width)), *causes, "", total)


def _bars(nodes: Sequence[NodeState], width: int, most: int) -> list[RenderableType]:
    """Return a progress bar for each node that fits, and a line that counts the others. Undrained nodes come first."""
    rows = sorted(nodes, key=lambda node: node.outcome is DrainOutcome.DONE)
    if len(rows) > most:
        rows = rows[: max(most - 1, FEWEST_NODES)]
    # A node must not take a second line, which would push the causes off the screen. In a long line the bar is shortened
    # first, then the text. The name of the node is kept, because a bar without it means nothing.
    names = min(max((len(node.name) for node in rows), default=0), max(width - SHORTEST_BAR - SHORTEST_TEXT - 4, 1))
    texts = max((len(_standing(node)) for node in rows), default=0)
    bar_width = min(BAR, max(width - names - texts - 4, SHORTEST_BAR))
    bars = Table.grid(padding=(0, 2))
    for column in (names, bar_width, min(texts, max(width - names - bar_width - 4, 1))):
        bars.add_column(no_wrap=True, overflow="ellipsis", width=column)
    for node in rows:
        bar = ProgressBar(
            total=max(node.total, 1), completed=len(node.departed_pods) if node.total else 1, width=bar_width
        )
        bars.add_row(Text(node.name, style="bold"), bar, Text(_standing(node), style=STYLES.get(node.outcome, "")))
    if len(rows) == len(nodes):
        return [bars]
    return [bars, Text(f"and {counted(len(nodes) - len(rows), 'more node')}", style="dim")]


def _causes(causes: Sequence[Cause], width: int, most: int) -> list[Text]:
    """Return the causes that fit into `most` lines, at least one, and a line that counts the others. Blocking ones first."""
    parts: list[Text] = []
    for number, cause in enumerate(sorted(causes, key=lambda cause: not cause.blocks)):
        style = "yellow" if cause.blocks else "dim"
        lines = [Text(), *(Text(line, style=style) for line in cause_lines(cause))]
        is_last = number == len(causes) - 1
        if parts and _height([*parts, *lines], width) > most - (not is_last):
            return [*parts, Text(f"and {counted(len(causes) - number, 'more cause')}", style="dim")]
        parts += lines
    return parts


def _height(lines: Sequence[Text], width: int) -> int:
    """Return how many rows of the terminal these lines take when they are wrapped between words."""
    return sum(len(wrap(line.plain, width)) or 1 for line in lines)


def cause_lines(cause: Cause, most: int = MOST_PODS) -> list[str]:
    until = f" until {_time(cause.until)}" if cause.until else ""
    lines = [f"{cause.text}{until}"]
    if cause.pods:
        lines.append(
            f"  {counted(len(cause.pods))}: {_some([f'{pod.namespace}/{pod.name}' for pod in cause.pods], most)}"
        )
    if cause.act:
        lines.append(f"  to go on: {cause.act}")
    return lines


class Lines:
    """The plain output of a drain by hand.

    It prints a line for each thing that has happened since the last look, in the words of `kubectl drain`.
    """

    def __init__(self, *, verb: str, every: float = 30.0) -> None:
        self._verb = verb
        self._every = every
        self._last: dict[str, NodeState] = {}
        self._printed_at: dict[str, float] = {}

    def of(self, state: DrainState) -> list[str]:
        lines = [line for node in state.nodes for line in self._node(self._last.get(node.name), node)]
        self._last = {node.name: node for node in state.nodes}
        return lines + self._waiting(state)

    def _node(self, last: NodeState | None, node: NodeState) -> Iterable[str]:
        if node.cordoned and (last is None or not last.cordoned):
            yield f"node/{node.name} {'already ' if node.before else ''}cordoned"
        if node.warnings and (last is None or last.warnings != node.warnings):
            yield f"Warning: {node.warnings}"
        going, departed = set(last.ending if last else ()), set(last.departed_pods if last else ())
        # A pod that was evicted and has gone between two looks gets its line, too.
        yield from (
            f"{self._verb} pod {pod}" for pod in (*node.ending, *node.departed_pods) if pod not in going | departed
        )
        yield from (f"pod {pod} gone" for pod in node.departed_pods if pod not in departed)
        ends_at, before = node.last_grace_ends_at, last.last_grace_ends_at if last else None
        # An earlier end only means that pods have gone, which their own lines say.
        if ends_at is not None and (before is None or before < ends_at):
            yield f"node/{node.name}: {_last_grace(ends_at)}"
        if node.outcome is not DrainOutcome.RUNNING and (last is None or last.outcome is not node.outcome):
            yield f"node/{node.name} drained" if node.outcome is DrainOutcome.DONE else _why(node)

    def _waiting(self, state: DrainState) -> list[str]:
        """Return lines about causes that block: new ones, and the others again after a while. A new count is not new."""
        lines: list[str] = []
        for cause in state.causes:
            name = f"{cause.code} {cause.text.partition(':')[0]}"
            last = self._printed_at.get(name)
            if cause.blocks and cause.pods and (last is None or state.seconds - last >= self._every):
                self._printed_at[name] = state.seconds
                first, *rest = cause_lines(cause)
                lines += [f"waiting: {first}", *rest]
        return lines


def statement(state: DrainState, outcome: DrainOutcome) -> str:
    """Return a summary of what a drain that did not complete has done and left, and how to undo it."""
    lines = [f"{ENDS[outcome]} after {state.seconds:.0f} s. State of the nodes:"]
    for node in state.nodes:
        lines.append(f"  node/{node.name}: {_cordon(node)}; {_standing(node)}")
        if node.outcome is not DrainOutcome.DONE:
            parts = (("gone", node.departed_pods), ("terminating", node.ending), ("not evicted", node.staying))
            lines += [f"    {word}: {', '.join(pods)}" for word, pods in parts if pods]
            if node.error:
                lines.append(f"    {node.error}")
    blocking = [cause for cause in state.causes if cause.blocks and cause.pods]
    lines += [f"  {line}" for cause in blocking for line in cause_lines(cause, len(cause.pods))]
    ours = [node.name for node in state.nodes if node.cordoned and not node.before]
    if ours:
        lines.append(f"to undo: haulout uncordon {' '.join(ours)}")
    return page(lines)


def preview(state: DrainState) -> str:
    """Return the text of a dry run: what a drain would do now."""
    held = {f"{pod.namespace}/{pod.name}" for cause in state.causes if cause.blocks for pod in cause.pods}
    paced = {f"{pod.namespace}/{pod.name}" for cause in state.causes if cause.code == PACED for pod in cause.pods}
    lines: list[str] = []
    for node in state.nodes:
        lines.append(f"node/{node.name} {'already cordoned' if node.before else 'would be cordoned'}")
        if node.warnings:
            lines.append(f"  {node.warnings}")
        if node.error:
            lines.append(f"  nothing would be evicted: {node.error}")
            continue
        lines += [f"  would evict pod {pod}" for pod in node.staying if pod not in held | paced]
        lines += [f"  would evict pod {pod}, in turn" for pod in node.staying if pod in paced]
        lines += [f"  would wait for pod {pod}: it is terminating" for pod in node.ending if pod not in held]
        lines += [f"  would not evict pod {pod} yet" for pod in (*node.staying, *node.ending) if pod in held]
        if not node.total:
            lines.append("  no pod would have to go")
    for cause in state.causes:
        if (cause.blocks or cause.code == PACED) and cause.pods:
            lines += cause_lines(cause, len(cause.pods))
    return page(lines)


def document(state: DrainState, outcome: DrainOutcome, *, dry_run: bool = False, error: str = "") -> str:
    body: dict[str, Any] = {
        "outcome": outcome,
        "exitCode": CODES[outcome],
        "dryRun": dry_run,
        "seconds": round(state.seconds, 1),
        "nodes": [_node_body(node) for node in state.nodes],
        "causes": [_cause_body(cause) for cause in state.causes],
    }
    if error:
        body["error"] = error
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()


def counted(number: int, word: str = "pod") -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _node_body(node: NodeState) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": node.name,
        "outcome": node.outcome,
        "cordoned": node.cordoned,
        "cordonedBefore": node.before,
        "total": node.total,
        "gone": node.departed_pods,
        "terminating": node.ending,
        "notEvicted": node.staying,
        "ignored": node.ignored,
    }
    if node.last_grace_ends_at is not None:
        body["lastGraceEndsAt"] = _plain(node.last_grace_ends_at)
    return body | {name: text for name, text in (("warnings", node.warnings), ("error", node.error)) if text}


def _cause_body(cause: Cause) -> dict[str, Any]:
    body: dict[str, Any] = {"code": cause.code, "text": cause.text, "blocks": cause.blocks}
    body["pods"] = [f"{pod.namespace}/{pod.name}" for pod in cause.pods]
    if cause.until is not None:
        body["until"] = _plain(cause.until)
    if cause.act:
        body["act"] = cause.act
    return body


def _last_grace(ends_at: datetime) -> str:
    return f"the last grace period ends {_time(ends_at)}"


def _time(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%H:%M:%S} UTC"


def _plain(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _why(node: NodeState) -> str:
    reason = f": {node.error}" if node.error else ""
    return f"node/{node.name} {ENDS.get(node.outcome, node.outcome)}{reason}"


def _cordon(node: NodeState) -> str:
    if not node.cordoned:
        return "not cordoned"
    return "cordoned before" if node.before else "cordoned"


def _standing(node: NodeState) -> str:
    if node.outcome is DrainOutcome.DONE:
        return f"drained, {counted(len(node.departed_pods))} gone"
    parts = [f"{len(node.departed_pods)} of {counted(node.total)} gone"]
    parts += [f"{len(node.ending)} terminating"] if node.ending else []
    parts += [f"{len(node.staying)} not evicted"] if node.staying else []
    parts += [_last_grace(node.last_grace_ends_at)] if node.last_grace_ends_at else []
    return ", ".join(parts)


def _some(names: Sequence[str], most: int) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
