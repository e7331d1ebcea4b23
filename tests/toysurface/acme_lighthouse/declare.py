"""The surface, declared: all that Haulout knows of it before it is served."""

from __future__ import annotations

from acme_lighthouse.settings import LighthouseSettings
from haulout.core.archive import METADATA, Archived, Kept, values
from haulout.core.metric import GAUGE, Metric
from haulout.core.rights import CLUSTER, READ, Right, Role, certificate_role, registration_right
from haulout.core.surface import Explained, Flag, Lint, Original, Registration, Surface

NAME, GROUP, VERSION, PLURAL, KIND = "lighthouse", "acme.test", "v1", "beacons", "Beacon"
BEACONS = "lighthouse_beacons"
WEBHOOK = Registration(
    configuration="acme-lighthouse",
    name="beacon.acme.test",
    path="/validate-beacon",
    rules=({"apiGroups": [GROUP], "apiVersions": [VERSION], "operations": ["CREATE"], "resources": [PLURAL]},),
)
ORIGINAL = Original(
    name="lighthouse-keeper",
    lease="keeper.acme.test",
    flags=(Flag("metrics-address", ":8080", "The address on which metrics are served; 0 for none.", sets="http"),),
    fixed={"elect": False, "health": "0", "webhooks.address": "0"},
)

SURFACE = Surface(
    name=NAME,
    package=__package__ or "",
    summary="Beacons: light the nodes that they name.",
    settings=LighthouseSettings,
    decisions="acme_lighthouse.surface:LIGHTHOUSE",
    part="acme_lighthouse.part:Lighthouse",
    reasons="acme_lighthouse.reasons:REASONS",
    original=ORIGINAL,
    crds=(PLURAL,),
    webhooks=(WEBHOOK,),
    metrics=(Metric(BEACONS, GAUGE, "Beacons by whether their node is lit.", ("lit",)),),
    archive=(
        Archived(
            group=GROUP,
            versions=(VERSION,),
            plural=PLURAL,
            kind=KIND,
            node="spec.nodeName",
            fields={"metadata": METADATA, "spec": values("nodeName", secret=Kept.SIZE)},
        ),
    ),
    explains=(Explained(kind=KIND, words=("beacon", "beacons", "bc")),),
    lint=(Lint(stem="lighthouse", keys=("lamps",), check="acme_lighthouse.lint:lint"),),
    roles=(
        Role(
            NAME,
            CLUSTER,
            (
                Right("", ("nodes",), (*READ, "patch"), "light nodes"),
                Right(GROUP, (PLURAL,), (*READ, "patch"), "follow Beacons, say that they are lit"),
                registration_right(WEBHOOK.configuration),
            ),
        ),
        certificate_role(NAME),
    ),
)
