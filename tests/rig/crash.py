"""Kills an operator right before and right after each of its writes, and compares the end states."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tests.build.examples import LONG, TURN, rotating
from tests.rig.audit import Entry
from tests.rig.faults import FaultProxy, Write, pass_all
from tests.rig.operator import HAULOUT
from tests.rig.plane import ControlPlane
from tests.rig.process import Process
from tests.rig.wait import PATIENCE, eventually
from tests.rig.warm import WarmProcess

Moment = Literal["before", "after"]

MOMENTS: tuple[Moment, ...] = ("before", "after")
# The order of writes may differ from run to run, so that a run may have one write less. Then it is tried again.
TRIES = 3
# All other runs are compared with the undisturbed one. On a busy machine it may pause for longer than they do.
UNDISTURBED_QUIET = 2.0
# One kill in so many is tried in a run, others on the next day: in virtual time each of them is tried in every run. Odd, so
# that kills before and after writes alternate.
SHARE = 5
VOLATILE = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"})
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def leases_and_events_apart(write: Write) -> bool:
    return re.search(r"/(leases|events|maintenancerecords)(/|$)", write.path) is None


def evictions_deletions_uncordons(entry: Entry) -> bool:
    """Return the successful requests that would do harm if they were repeated."""
    uncordons = entry.what == "nodes" and isinstance(entry.body, dict) and "unschedulable" in entry.body.get("spec", {})
    return entry.code < 300 and (
        entry.act == "create pods/eviction"
        or entry.verb in {"delete", "deletecollection"}
        or (uncordons and not entry.body["spec"]["unschedulable"])
    )


def normalised(value: Any, *, drop: Collection[str] = VOLATILE) -> Any:
    """Return a value without what differs from run to run: the fields in `drop`, and all times."""
    if isinstance(value, dict):
        return {key: normalised(inner, drop=drop) for key, inner in value.items() if key not in drop}
    if isinstance(value, list):
        return [normalised(inner, drop=drop) for inner in value]
    return TIME.sub("<time>", value) if isinstance(value, str) else value


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a run. `writes`: those that the server has carried out."""

    writes: tuple[Write, ...]
    state: Any
    destructive: tuple[str, ...]
    unsettled: str = ""
    killed_at: Write | None = None


@dataclasses.dataclass(frozen=True)
class Report:
    writes: tuple[str, ...]
    runs: int
    seconds: float
    differences: tuple[str, ...]


@dataclasses.dataclass
class CrashTest:
    """A scenario that is run once undisturbed, and then once for each write and moment of a kill in the sample of this turn.

    `make_world` removes what a run has left and builds the start again. `act` starts the scenario. `settled` says when
    it has ended. `end_state` returns what is compared, and may be called several times. The operator finds its cluster
    by KUBECONFIG. `share`: one kill in so many is in the sample.
    """

    plane: ControlPlane
    logs: Path
    argv: Sequence[str | Path]
    make_world: Callable[[], None]
    act: Callable[[], None]
    settled: Callable[[], bool]
    end_state: Callable[[], Any]
    destructive: Callable[[Entry], bool] = evictions_deletions_uncordons
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    counted: Callable[[Write], bool] = leases_and_events_apart
    user: str = "operator"
    within: float = PATIENCE
    # A settled scenario counts as over when there was no write for this many seconds.
    quiet: float = 1.0
    # A killed run may take this many seconds longer than the undisturbed one. A late run is not wrong.
    late: float = 20.0
    share: int = SHARE
    # The address of the cluster, for worlds that write it down. It is set before the first world is made.
    url: str = ""

    def verify(self) -> Report:
        report = self.run()
        repeat = "" if LONG else f"TEST_TURN={TURN} repeats this sample of kills."
        assert not report.differences, "\n\n".join((*report.differences, repeat))
        return report

    def run(self) -> Report:
        started = time.monotonic()
        with FaultProxy(self.plane) as proxy:
            self.url = proxy.url
            plain = self.once(proxy)
            if plain.unsettled:
                raise AssertionError(f"the undisturbed run did not settle: {plain.unsettled}")
            kills = [(i, moment) for i in range(1, len(plain.writes) + 1) for moment in MOMENTS]
            crashes = rotating(kills, self.share)
            found = [text for i, moment in crashes for text in self._compared(proxy, plain, i, moment)]
        writes = tuple(str(write) for write in plain.writes)
        return Report(writes, 1 + len(crashes), time.monotonic() - started, tuple(found))

    def _compared(self, proxy: FaultProxy, plain: Outcome, number: int, moment: Moment) -> Iterator[str]:
        for _ in range(TRIES):
            outcome = self.once(proxy, number, moment, plain)
            if outcome.killed_at is not None:
                break
        else:
            yield f"no write {number} came in {TRIES} runs; undisturbed it was {plain.writes[number - 1]}"
            return
        where = f"killed {moment} {outcome.killed_at}"
        if outcome.unsettled:
            yield f"{where}: never settled: {outcome.unsettled}"
        if outcome.state != plain.state:
            yield f"{where}: another end\n{difference(plain.state, outcome.state)}"
        if outcome.destructive != plain.destructive:
            yield f"{where}: other destructive acts\n{difference(plain.destructive, outcome.destructive)}"

    def once(
        self, proxy: FaultProxy, number: int | None = None, moment: Moment = "before", plain: Outcome | None = None
    ) -> Outcome:
        """Run the scenario once from a fresh world, and kill the operator at the given one of the counted writes, if it comes.

        `plain`: the undisturbed run, unless this is it.
        """
        self.make_world()
        since = self.plane.audit.mark()
        kubeconfig = self.plane.kubeconfig(self.user, server=proxy.url)
        base = {key: os.environ[key] for key in ("HOME", "LANG", "PATH", "TMPDIR") if key in os.environ}
        kind = WarmProcess if str(self.argv[0]) == str(HAULOUT) else Process
        process = kind("operator", self.argv, self.logs, env={**base, "KUBECONFIG": str(kubeconfig), **self.env})
        run = Run(proxy, process, self.counted, lambda write: (write.number, write.moment) == (number, moment))
        unsettled = ""
        quiet = self.quiet if plain is not None else max(self.quiet, UNDISTURBED_QUIET)
        with run:
            self.act()
            try:
                eventually(lambda: run.quiet_for(quiet) and self.settled(), "settled and quiet", self.within)
            except (AssertionError, RuntimeError) as error:
                unsettled = f"{error}; the operator's log ends: {process.text()[-500:]}"
            if plain is not None and not unsettled:
                with contextlib.suppress(AssertionError):
                    eventually(lambda: self.end_state() == plain.state, "the end of the undisturbed run", self.late)
        entries = self.plane.audit.entries(since=since, user=self.user)
        acts = sorted(f"{entry.act} {entry.of}" for entry in entries if self.destructive(entry))
        # A write with a conflict, because a watch was late, is repeated. Another run may not need it.
        stored = tuple(write for write in run.writes if write.code is not None and write.code < 300)
        return Outcome(stored, self.end_state(), tuple(acts), unsettled, run.killed_at)


class Run:
    """The operator from start to end of a run.

    It is killed at the writes that `kills` names, and started again at once.
    """

    def __init__(
        self,
        proxy: FaultProxy,
        process: Process,
        counted: Callable[[Write], bool],
        kills: Callable[[Write], bool],
    ) -> None:
        self.proxy = proxy
        self.process = process
        self.counted = counted
        self.kills = kills
        self.writes: list[Write] = []
        self.killed_at: Write | None = None
        self._order: dict[int, int] = {}
        self._last_at = time.monotonic()
        self._dead = threading.Event()
        self._restarting = threading.Thread(target=self._restart, name="restart")
        self._over = False

    def quiet_for(self, seconds: float) -> bool:
        """Whether the operator watches and has not written for so many seconds. Raises if it has ended by itself.

        An operator that has just been started and does not watch yet must not count as quiet.
        """
        if self.process.running:
            last_at = max(self._last_at, self.proxy.watch_opened_at)
            return self.proxy.watching > 0 and time.monotonic() - last_at >= seconds
        if self.killed_at is None:
            self.process.check()
        return False

    def __enter__(self) -> Run:
        self.proxy.on_write = self._on_write
        self._restarting.start()
        self.process.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over = True
        self._dead.set()
        self._restarting.join()
        self.process.stop()
        self.proxy.wait_deserted()
        self.proxy.on_write = pass_all

    def _on_write(self, write: Write) -> bool:
        """Decide about a write.

        It is called while nothing else passes the proxy, so writes come here in their real order.
        """
        if not self.counted(write) or self._over:
            return True
        self._last_at = time.monotonic()
        if write.moment == "before":
            self._order[write.number] = len(self._order) + 1
        write = dataclasses.replace(write, number=self._order[write.number])
        if write.moment == "after":
            self.writes.append(write)
        if not self.kills(write):
            return True
        self.killed_at = write
        self.process.kill()
        self._dead.set()
        return False

    def _restart(self) -> None:
        while True:
            self._dead.wait()
            if self._over:
                return
            self._dead.clear()
            self.proxy.wait_deserted()
            self._last_at = time.monotonic()
            self.process.start()


def difference(wanted: Any, found: Any) -> str:
    before, after = (json.dumps(value, indent=1, sort_keys=True, default=str).splitlines() for value in (wanted, found))
    return "\n".join(difflib.unified_diff(before, after, "undisturbed", "killed", lineterm="", n=2))
