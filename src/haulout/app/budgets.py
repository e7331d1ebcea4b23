"""The part of the process for the kernel's limits: NodeDisruptionBudgets with their metrics, and the quorum of etcd.

A cluster without their definition has no budgets. Budgets that cannot be read refuse every new disruption.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice

from haulout.app.parts import Part, Surroundings
from haulout.cluster.key import Key
from haulout.cluster.store import Listing
from haulout.core.admission import Webhook
from haulout.core.budgets.admit import webhook
from haulout.core.budgets.decisions import BUDGETS, BudgetOptions
from haulout.core.budgets.rule import NAME
from haulout.core.budgets.status import samples
from haulout.core.budgets.wire import KIND
from haulout.core.declaration import Context
from haulout.core.override import GUARD
from haulout.core.pause import all_pauses
from haulout.kube.discovery import OPENSHIFT, groups_in
from haulout.kube.errors import Forbidden
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.runtime.metrics import Sample
from haulout.runtime.probes import Probe, ProbeFailed
from haulout.serve.override_guard import override_guard
from haulout.surfaces.registry import claims_nodes, keeps_quorum, surfaces

log = logging.getLogger(__name__)

# So many pauses have a series each. People who stop more than that at once do so by one NodeDisruptionBudget.
MOST_PAUSES = 200
PAUSED_SINCE = "haulout_paused_since_timestamp_seconds"
UNREADABLE, READABLE = "BudgetsUnreadable", "BudgetsReadable"


class Budgets(Part):
    """The kernel's limits as a part of the process.

    It serves the metrics of NodeDisruptionBudgets and reports when they cannot be read. It lets etcd keep its quorum on
    OpenShift, and wherever a setting asks for it.
    """

    declaration = BUDGETS

    def __init__(self, around: Surroundings) -> None:
        self._unreadable = ""
        self._may_be_openshift = False
        self._paused: dict[Key, datetime] = {}
        super().__init__(around)

    def complete(self, options: object, context: Context) -> BudgetOptions:
        # Where no surface claims nodes there is nothing to refuse, and no right to read pods is needed.
        is_kept = self._may_be_openshift or keeps_quorum(self.settings.blocks)
        return BudgetOptions(quorum=is_kept and claims_nodes(self.settings.blocks))

    async def prepare(self, writer: Writer) -> None:
        """Find out whether the API server is OpenShift's. Raises KubeError if it does not answer.

        If it does not say so, the quorum is kept: what cannot be read is not taken for absent.
        """
        self._may_be_openshift = True
        try:
            self._may_be_openshift = OPENSHIFT in groups_in(await writer.get("/apis", key=NAME))
        except Forbidden:
            log.warning("the quorum of etcd is kept: whether this is OpenShift cannot be read (GET /apis is forbidden)")
        finally:
            self.renew_options()

    def webhooks(self) -> tuple[Webhook, ...]:
        # A process that serves no other webhook needs no certificate for this one: the policy guards overrides, too.
        serves = any(each.webhooks for each in surfaces() if each.name in self.settings.blocks)
        return (webhook(self.around.clock.now),) if serves else ()

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        async def is_guarded(_: object) -> bool:
            found = await override_guard(transport)
            if isinstance(found, str):
                raise ProbeFailed(found)
            return found

        return {GUARD.probe: is_guarded}

    def look(self, *, closely: bool = False) -> None:
        """Report once, in the log and as an event, when budgets become unreadable or readable again."""
        table = self.around.store.table("", KIND)
        why = (table.why or "no answer") if table.listing is Listing.UNREADABLE else ""
        if why == self._unreadable:
            return
        self._unreadable = why
        if why:
            log.error("budgets cannot be read, nothing new is disrupted", extra={"kind": KIND, "error": why})
            note = f"NodeDisruptionBudgets cannot be read, and no new maintenance starts: {why}"
            self.around.troubles.invalid(NAME, note, UNREADABLE)
        else:
            log.info("budgets can be read again", extra={"kind": KIND})
            self.around.troubles.valid(NAME, "NodeDisruptionBudgets can be read again", READABLE)

    def samples(self) -> Iterable[Sample]:
        return (*samples(list(self.around.store.table("", KIND).rows.values())), *self._pauses())

    def _pauses(self) -> Iterator[Sample]:
        """Yield since when each object pauses nodes. Without that knowledge, since when it has been seen."""
        kinds = ("Node", *(each.kind for surface in surfaces() for each in surface.explains))
        found = list(islice(all_pauses(self.around.store, kinds), MOST_PAUSES))
        now = self.around.clock.now()
        self._paused = {each.subject: each.at or self._paused.get(each.subject, now) for each in found}
        for key, at in self._paused.items():
            labels = (("kind", key.kind), ("name", key.name), ("namespace", key.namespace))
            yield PAUSED_SINCE, labels, at.timestamp()
