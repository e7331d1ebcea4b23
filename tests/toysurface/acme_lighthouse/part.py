"""What the process does for the surface beside its decisions: its webhook and its metric are served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from acme_lighthouse.declare import BEACONS, KIND, WEBHOOK
from acme_lighthouse.surface import LIGHTHOUSE, LIT, BeaconRow
from haulout.app.parts import Part
from haulout.cluster.view import View
from haulout.core.admission import ALLOWED, AdmissionRequest, Verdict, Webhook, denial
from haulout.runtime.metrics import Sample


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Beacon(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


def admit(request: AdmissionRequest, view: View) -> Verdict:
    names_node = isinstance(request.object, _Beacon) and request.object.spec.node_name
    return ALLOWED if names_node else denial("a Beacon names a node")


class Lighthouse(Part):
    declaration = LIGHTHOUSE

    def samples(self) -> Iterable[Sample]:
        rows = [row for row in self.around.store.rows("", KIND) if isinstance(row, BeaconRow)]
        lit = Counter(str(row.labels.get(LIT) == "true").lower() for row in rows)
        return [(BEACONS, (("lit", word),), float(count)) for word, count in lit.items()]

    def webhooks(self) -> tuple[Webhook, ...]:
        return (Webhook(WEBHOOK.name, WEBHOOK.path, admit, _Beacon, WEBHOOK.configuration),)
