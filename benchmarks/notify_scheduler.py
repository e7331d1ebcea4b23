"""What the order of starts that notify's scheduler chooses saves its users: campaigns over a fleet in virtual time."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from benchmarks.bars import svg
from benchmarks.harness import Cell, Report, options
from haulout.base.collector import without_collector
from tests.build.campaign import FIRST_COME, MIXES, PATIENT, POLICIES, SCHEDULER, Campaign, Result

HOUR = timedelta(hours=1)
# The goal on the mixed fleet: this much less work is lost than by first come, first served, without ending later.
SAVED = 0.3
Run = tuple[str, str, int]


class Runs:
    """The results of campaigns by mix, order and seed. Those in the file are not run again."""

    def __init__(self, nodes: int, path: Path | None) -> None:
        self._nodes, self._path = nodes, path
        self._known: dict[tuple[str, str, int, int], Result] = {}
        for line in path.read_text().splitlines() if path is not None and path.exists() else ():
            found = json.loads(line)
            found |= {name: timedelta(seconds=found[name]) for name in ("total_for", "longest_wait_for")}
            key = found.pop("mix"), found.pop("order"), found.pop("nodes"), found.pop("seed")
            self._known[key] = Result(**found)

    def of(self, run: Run) -> Result:
        mix, order, seed = run
        if (mix, order, self._nodes, seed) not in self._known:
            self._known[mix, order, self._nodes, seed] = self._made(mix, order, seed)
        return self._known[mix, order, self._nodes, seed]

    def has(self, run: Run) -> bool:
        mix, order, seed = run
        return (mix, order, self._nodes, seed) in self._known

    def _made(self, mix: str, order: str, seed: int) -> Result:
        began = time.process_time()
        with without_collector():
            result = Campaign(mix, order, nodes=self._nodes, at_once=max(1, self._nodes // 20), seed=seed).run()
        took = time.process_time() - began
        print(f"{mix}, {order}, seed {seed}: {result} in {took:.0f} CPU s", file=sys.stderr, flush=True)
        if self._path is not None:
            spans = {name: getattr(result, name).total_seconds() for name in ("total_for", "longest_wait_for")}
            kept = {"mix": mix, "order": order, "nodes": self._nodes, "seed": seed, **result._asdict(), **spans}
            with self._path.open("a") as file:
                file.write(json.dumps(kept) + "\n")
        return result


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def row_of(mix: str, order: str, results: list[Result]) -> dict[str, Cell]:
    lost = [each.lost_hours for each in results]
    return {
        "mix": mix,
        "order": order,
        "seeds": len(results),
        "total h": mean(each.total_for / HOUR for each in results),
        "longest wait h": mean(each.longest_wait_for / HOUR for each in results),
        "lost GPU h": mean(lost),
        "least": min(lost),
        "most": max(lost),
        "runs cut off": mean(each.cut_off for each in results),
        "most out": max(each.most_out for each in results),
    }


def main() -> None:
    parser = options("notify_scheduler", __doc__, runs=1, peers=False)
    parser.add_argument("--nodes", type=int, default=200, help="of a simulated fleet")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5], help="of the mixed fleet")
    parser.add_argument("--mixes", nargs="*", default=list(MIXES), choices=[*MIXES])
    parser.add_argument("--orders", nargs="*", default=list(POLICIES), choices=[*POLICIES])
    parser.add_argument("--results", type=Path, help="a file with the results of each campaign, to go on from")
    parser.add_argument("--known", action="store_true", help="run none: only tell what the file has")
    parser.add_argument("--svg", type=Path, help="draw lost work and total time there")
    chosen = parser.parse_args()
    runs, report = Runs(chosen.nodes, chosen.results), Report("notify_scheduler: which node first", chosen)
    wanted = [
        (mix, order, seed)
        for mix in chosen.mixes
        for order in chosen.orders
        for seed in (chosen.seeds if mix == "mixed" or chosen.known else chosen.seeds[:1])
    ]
    results: dict[tuple[str, str], dict[int, Result]] = {}
    for run in wanted:
        if runs.has(run) or not chosen.known:
            results.setdefault(run[:2], {})[run[2]] = runs.of(run)
    report.table(
        f"A maintenance for each of {chosen.nodes} nodes, 5 % of them at once, SLA 4 h, 20 min of work: means",
        [row_of(mix, order, list(found.values())) for (mix, order), found in results.items()],
    )
    report.say(
        "Virtual time on the embedded cluster, seeds from 1 on. A single campaign says little: which runs happen to be long\n"
        "decides more than the order. Orders are compared over the seeds that all have. Gaming and training: 70 % of the\n"
        "nodes have gaming sessions (about 25 min) or training runs (2, 6 or 14 h in the middle; half announce their end,\n"
        "wrong by up to a fifth), the rest services under PodDisruptionBudgets. Services: 80 % and 20 % sessions. Mixed: 30 %\n"
        "sessions, 40 % runs, 30 % services. All orders are configurations of the same scheduler: all weights but that of\n"
        "age, or of a random priority, are 0. Lost is work that the SLA has cut off: age times devices."
    )
    for mix, order in ((mix, order) for mix in ("mixed", "services") for order in (SCHEDULER, PATIENT)):
        ours, theirs = results.get((mix, order), {}), results.get((mix, FIRST_COME), {})
        both = sorted(ours.keys() & theirs.keys())
        if both:
            judge(report, f"{mix}, {order}", [ours[seed] for seed in both], [theirs[seed] for seed in both])
    if chosen.svg:
        rows = [row_of(mix, order, list(found.values())) for (mix, order), found in results.items()]
        chosen.svg.write_text(picture(rows, chosen.nodes))
    report.finish()


def judge(report: Report, what: str, ours: list[Result], theirs: list[Result]) -> None:
    """Compare an order with first come, first served, over the seeds that both have."""
    lost, before = (mean(each.lost_hours for each in found) for found in (ours, theirs))
    total, latest = (mean(each.total_for / HOUR for each in found) for found in (ours, theirs))
    if before:
        saved = [1 - mine.lost_hours / other.lost_hours for mine, other in zip(ours, theirs, strict=True)]
        report.say(
            f"{what}: {1 - lost / before:.0%} less lost work than first come over {len(ours)} seeds, "
            f"{min(saved):.0%} to {max(saved):.0%} by seed"
        )
        report.goal(f"{what}: lost GPU hours, against first come", lost, (1 - SAVED) * before, " h")
    report.goal(f"{what}: total time, against first come", total, latest, " h")


def picture(rows: list[dict[str, Cell]], nodes: int) -> str:
    panels: dict[str, dict[str, dict[str, float]]] = {"lost GPU hours": {}, "hours until all is done": {}}
    for row in rows:
        for panel, column in zip(panels, ("lost GPU h", "total h"), strict=True):
            value = row[column]
            assert isinstance(value, float)
            panels[panel].setdefault(str(row["mix"]), {})[str(row["order"])] = value
    return svg(f"Maintenance of {nodes} nodes, 5 % at once: which node first", panels)


if __name__ == "__main__":
    main()
