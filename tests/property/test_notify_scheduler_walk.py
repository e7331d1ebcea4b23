"""Random changes while the scheduler of notify is on: it never exceeds its budget, and never starts anything in part."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings

from haulout.embedded import NODES, Change
from haulout.surfaces.notify.wire import CORDONED_BY, PREFIX, SCHEDULED
from tests.build.examples import examples
from tests.build.notices import options
from tests.build.walk import tapes
from tests.property.test_notify_walk import BLOCK, REST, Turmoil

SCHEDULER = "scheduler: {enabled: true, budgets: [{name: all, maxUnavailable: 1}]}"
ALONE = options(f"{BLOCK}operators: {{{SCHEDULER}, {REST}}}\n")


class Scheduled(Turmoil):
    """A walk with the moves of all clients while the scheduler is on. `starts`: its own cordons, with what it saw."""

    modes = (ALONE, msgspec.structs.replace(ALONE, alone=False))

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.out: set[str] = set()
        self.beyond: list[str] = []
        self.ops.world.objects.subscribe(NODES, self._changed)

    def _changed(self, change: Change) -> None:
        meta, name = change.object["metadata"], change.object["metadata"]["name"]
        is_out = change.type != "DELETED" and bool(change.object["spec"].get("unschedulable"))
        owner = meta.get("annotations", {}).get(CORDONED_BY, "")
        before = (change.old or {}).get("metadata", {}).get("annotations", {})
        if is_out and name not in self.out and owner and CORDONED_BY not in before:
            labelled = any(key.startswith(PREFIX) for key in meta.get("labels", {}))
            found = self.ops.found(owner.partition("/")[2])
            # One whose Node was made anew is claimed again, whatever the budget says.
            starts = found is not None and found["status"]["maintenanceStatus"] == SCHEDULED
            if not labelled or (starts and self.out - {name}):
                self.beyond.append(f"{owner} with {sorted(self.out)}")
        self.out = self.out | {name} if is_out else self.out - {name}

    def check(self) -> None:
        super().check()
        assert self.beyond == []


@settings(max_examples=examples(100))
@given(tapes())
def test_no_walk_leads_beyond_the_budget(tape: bytes) -> None:
    Scheduled(tape).go()
