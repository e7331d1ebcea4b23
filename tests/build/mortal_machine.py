"""A Machine that is maintained and then deleted, with an operator that can be killed, and the controllers around it."""

from __future__ import annotations

from typing import Any

import msgspec

from haulout.cluster.key import Key, node_key
from haulout.kernel.requests import Answer, Body, Change
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.wire import (
    DELETED,
    DELETION_APPROVED,
    HOOK,
    HOST,
    MAINTENANCE,
    MAINTENANCE_APPROVED,
    REBOOT,
    REQUEST,
    MachineRow,
    machine_key,
)
from tests.build.clusterapi import ClusterApiWorld
from tests.build.kills import KilledAtWrite
from tests.build.machines import ALPHA, cluster, host, machine, node, secret

MACHINE, NODE, PLACE = machine_key("fleet", "m"), node_key("m", ALPHA.cluster), Key("", HOST, "fleet", "m")


class MortalWorld(ClusterApiWorld):
    """One Machine that is first maintained and then deleted. The other controllers do their part once they are asked.

    `dies_at`: the write at which the operator dies, before (False) or after it (True). `early`: whether the Machine was
    let go before that was approved.
    """

    def __init__(self, number: int = 0, *, is_after: bool = False, together: bool = False) -> None:
        self.writes, self.dies_at, self.early = 0, (number, is_after), False
        about = machine("m", node="m", cluster="alpha", provider="metal3://fleet/m/m3", request="requested")
        far = node("m", cluster=ALPHA.cluster, claims=ALPHA)
        rows = [secret(workload=ALPHA), about, far, host("m"), cluster("alpha")]
        super().__init__(*rows, options=Options(enable_metal3_maintenance=True), together=together)

    def carry_out(self, body: Body) -> Answer:
        self.writes += isinstance(body, Change)
        number, is_after = self.dies_at
        if isinstance(body, Change) and self.writes == number and not is_after:
            self.dies_at = (0, False)
            raise KilledAtWrite
        answer = super().carry_out(body)
        if isinstance(body, Change) and self.writes == number and is_after:
            self.dies_at = (0, False)
            raise KilledAtWrite
        return answer

    def live(self) -> MortalWorld:
        for _ in range(40):
            try:
                self.wait(30)
            except KilledAtWrite:
                self.restart()
            self._others_act()
        return self

    def _others_act(self) -> None:
        about, far = self.world.objects[MACHINE], self.world.objects[NODE]
        assert isinstance(about, MachineRow)
        is_hooked, is_off = HOOK in about.annotations, REBOOT in self.world.objects[PLACE].annotations
        match about.labels.get(REQUEST), about.deleting_at is not None:
            case "requested", _ if MAINTENANCE in far.labels and is_hooked:
                self.change(NODE, labels={MAINTENANCE_APPROVED: "true"})
            case "approved", _ if is_off:
                self.change(MACHINE, labels={REQUEST: None})
            case None, False if MAINTENANCE not in far.labels and not is_off:
                self.change(NODE, labels={MAINTENANCE_APPROVED: None})
                self.world.put(msgspec.structs.replace(about, deleting_at=self.now))
            case None, True if DELETED in far.labels and is_hooked:
                self.change(NODE, labels={DELETION_APPROVED: "true"})
            case None, True if not is_hooked:
                self.early = self.early or far.labels.get(DELETION_APPROVED) != "true"

    def end(self) -> Any:
        rows = [self.world.objects[key] for key in (MACHINE, NODE, PLACE)]
        return [(row.labels, sorted(row.annotations)) for row in rows]
