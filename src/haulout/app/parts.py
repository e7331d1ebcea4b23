"""A surface as the process serves it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import ClassVar

import msgspec

from haulout.app.troubles import Troubles
from haulout.base.clock import Clock
from haulout.cluster.store import Listing, Store
from haulout.core.admission import Webhook
from haulout.core.decision import Source
from haulout.core.declaration import Declaration
from haulout.kube.config import Opened
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.runtime.metrics import Metrics, Sample
from haulout.runtime.probes import Probe
from haulout.runtime.sender import Channel
from haulout.serve.web import Handler
from haulout.settings.settings import Settings
from haulout.surfaces.registry import KERNEL, names


class CannotStart(Exception):
    """What a part needs is not there; the process ends with this line."""


class Surroundings(msgspec.Struct, frozen=True):
    """What the process gives to every part. `poke`: have the kernel look for subjects that are due.

    `leader`: the holder of the Lease, and the namespace of its pods; None: there is no Lease, and this process acts.
    `transport`: the way to a cluster that has been opened. `home_is_local`: our own API server is reached by a loopback
    address.
    """

    settings: Settings
    store: Store
    metrics: Metrics
    clock: Clock
    poke: Callable[[], None]
    leads: Callable[[], bool] = lambda: True
    leader: Callable[[], tuple[str, str] | None] = lambda: None
    troubles: Troubles = msgspec.field(default_factory=Troubles)
    transport: Callable[[str], Transport | None] = lambda cluster: None
    home_is_local: Callable[[], bool] = lambda: False


class Part:
    """A declared surface as the process serves it: what it reads from files, serves, sends and asks."""

    declaration: ClassVar[Declaration]

    def __init__(self, around: Surroundings) -> None:
        self.around = around

    @property
    def name(self) -> str:
        return self.declaration.name

    def watches(self) -> frozenset[Source]:
        """Return the sources that it always watches in the home cluster."""
        return self.declaration.sources(None)

    def look(self, *, closely: bool = False) -> None:
        """Look whether its configuration has changed."""

    def follow(self, settings: Settings) -> None:
        """Take over settings that have changed while the process runs."""

    def lingers_for(self) -> timedelta:
        """Return how long a process that ends waits for its metrics to be read once more."""
        return timedelta()

    def samples(self) -> Iterable[Sample]:
        """Return the gauges, worked out when asked for."""
        return ()

    def routes(self, transport: Transport) -> Mapping[str, Handler]:
        """Return what it serves beside the metrics, on every replica."""
        return {}

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        """Return how the facts that its decisions read are found out, by the facts' names."""
        return {}

    def connect(self, access: Hashable) -> Opened | None:
        """Read an access that its decisions have given; raises KubeError for a wrong one.

        It is called in a thread of its own, because reading a foreign kubeconfig may take long.
        """
        return None

    def reconnected(self, cluster: str, reason: str) -> None:
        """Note that a connection to another cluster is there again."""

    def forget_cluster(self, cluster: str) -> None:
        """Forget a cluster that no decision needs any more."""

    def lacks(self) -> str:
        """Return what has to be known before this replica is ready."""
        if not any(source.kind == "Node" for source in self.watches()):
            return ""
        known = self.around.store.table("", "Node").listing is Listing.LISTED
        return "" if known else "; ".join(("the cluster has not been listed yet", *self.unreadable()))

    def unreadable(self) -> Iterator[str]:
        """Yield which kinds the surface needs and cannot read, why, and what would help."""
        for kind in sorted({source.kind for source in self.watches() if not source.cluster}):
            table = self.around.store.table("", kind)
            if table.listing is Listing.UNREADABLE and kind not in self.around.settings.optional_kinds:
                # Budgets and what else is no surface have their rights from the kernel.
                owner = self.declaration.surface if self.declaration.surface in names() else KERNEL
                advice = f" (`haulout rbac {owner}` prints the rights)" if "forbidden" in table.why else ""
                yield f"surface {self.name} cannot read {kind}: {table.why}{advice}"

    def channels(self, transport: Transport) -> Mapping[str, Channel]:
        """Return the ways on which its messages leave the process."""
        return {}

    async def introduce(self, transport: Transport) -> None:
        """Find out what has to be known of the cluster before anything is served. Raises KubeError where it cannot."""

    async def leave(self, writer: Writer) -> None:
        """Store what is to be kept when a leading process ends. The process waits for it for a short time only."""

    def webhooks(self) -> tuple[Webhook, ...]:
        """Return the webhooks, which every replica serves."""
        return ()

    async def prepare(self, writer: Writer) -> None:
        """Make what has to be there before anything is decided. It is called when leadership is gained."""
