"""`Part`, the base class of every surface as the process serves it, and `Surroundings`, what each part is given."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

import msgspec

from haulout.app.surface_options import OptionsListener, SurfaceOptions
from haulout.app.troubles import Troubles
from haulout.base.clock import Clock
from haulout.cluster.rows import Row
from haulout.cluster.store import Listing, Store
from haulout.core.admission import Webhook
from haulout.core.decision import Source
from haulout.core.declaration import Declaration, OptionsProblem
from haulout.kube.config import Opened
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.runtime.metrics import Metrics, Sample
from haulout.runtime.probes import Probe
from haulout.runtime.sender import Channel
from haulout.serve.http import Handler
from haulout.settings.settings import Settings
from haulout.surfaces.registry import KERNEL, names


class CannotStart(Exception):
    """A part cannot start because something that it needs is missing. The process logs the message and ends."""


class Surroundings(msgspec.Struct, frozen=True):
    """The parts of the process that every surface may use.

    `poke`: make the kernel run the subjects that are due.
    `leads`: whether this replica is the leader.
    `leader`: the holder of the Lease and the namespace of its pod. None: there is no election, and this process leads.
    `transport`: the connection to a cluster, by the cluster's name; None while it is not connected.
    `home_is_local`: whether the home API server has a loopback address.
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


class Part(OptionsListener):
    """A declared surface in a running process: its options, metrics, HTTP routes, probes, channels and webhooks.

    A surface that does no I/O of its own needs no class: its declaration suffices. A subclass sets its own fields before it
    calls `Part.__init__`, which reads the surface's files.

    `settings`: those of the process, as of now.
    """

    declaration: Declaration
    # The beginning of the message with which the process ends if a file that the surface needs cannot be used.
    cannot_start: ClassVar[str] = ""

    def __init__(self, around: Surroundings, declaration: Declaration | None = None) -> None:
        self.around = around
        self.settings = around.settings
        if declaration is not None:
            self.declaration = declaration
        self._options = SurfaceOptions(self.declaration, around.settings, around.troubles, self._publish, self)
        try:
            self._options.begin()
        except OptionsProblem as problem:
            raise CannotStart(f"{self.cannot_start}{'; '.join(problem.lines)}") from None

    def _publish(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.around.store.write(row)
        self.around.poke()

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def options(self) -> Any:
        """Return what the surface's decisions read; None while a file that they need is invalid."""
        return self._options.options

    def watches(self) -> frozenset[Source]:
        """Return the sources in the home cluster that are watched whether or not a decision asks for them."""
        return self.declaration.sources(self.options)

    def look(self, *, closely: bool = False) -> None:
        """Read the configuration files again if they have changed. `closely`: compare the content, not only the times."""
        self._options.look(closely=closely)

    def follow(self, settings: Settings) -> None:
        """Take over the settings of a changed `haulout.yaml`."""
        self.settings = settings
        self._options.follow(settings)

    def renew_options(self) -> None:
        """Make the options again, because something that `complete` adds to them has changed."""
        self._options.renew()

    def lingers_for(self) -> timedelta:
        """Return how long the process waits at its end for a last scrape of the metrics."""
        return timedelta()

    def samples(self) -> Iterable[Sample]:
        """Return the surface's gauges. They are computed when metrics are scraped."""
        return ()

    def routes(self, transport: Transport) -> Mapping[str, Handler]:
        """Return the HTTP handlers by path that every replica serves beside the metrics."""
        return {}

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        """Return the probes that find out the facts that decisions read, by the facts' names."""
        return {}

    def connect(self, access: Hashable) -> Opened | None:
        """Return how to reach a cluster from the access that a decision has named, or None if it is not this surface's.

        Raises KubeError for an access that cannot be used. It is called in a thread of its own, because reading a
        foreign kubeconfig may take long.
        """
        return None

    def on_reconnect(self, cluster: str, reason: str) -> None:
        """Note that the connection to another cluster works again."""

    def forget_cluster(self, cluster: str) -> None:
        """Forget a cluster that no decision needs any more."""

    def lacks(self) -> str:
        """Return why this replica is not ready yet, in words; empty if it is."""
        if not any(source.kind == "Node" for source in self.watches()):
            return ""
        known = self.around.store.table("", "Node").listing is Listing.LISTED
        return "" if known else "; ".join(("the cluster has not been listed yet", *self.unreadable()))

    def unreadable(self) -> Iterator[str]:
        """Yield a text for each kind that the surface needs and cannot read: the kind, the cause and what would help."""
        for kind in sorted({source.kind for source in self.watches() if not source.cluster}):
            table = self.around.store.table("", kind)
            if table.listing is Listing.UNREADABLE and kind not in self.around.settings.optional_kinds:
                # The rights of parts that are no surface, such as budgets, are in the kernel's role.
                owner = self.declaration.surface if self.declaration.surface in names() else KERNEL
                advice = f" (`haulout rbac {owner}` prints the rights)" if "forbidden" in table.why else ""
                yield f"surface {self.name} cannot read {kind}: {table.why}{advice}"

    def channels(self, transport: Transport) -> Mapping[str, Channel]:
        """Return the channels that deliver the surface's messages, by the channels' names."""
        return {}

    async def introduce(self, transport: Transport) -> None:
        """Find out what the surface has to know of the cluster before anything is served. Raises KubeError on failure."""

    async def leave(self, writer: Writer) -> None:
        """Store what would be lost when a leading process ends. The process waits only a short time for it."""

    def take_key(self, key: bytes) -> None:
        """Take the private key of the webhooks' certificate, whenever it changes."""

    def webhooks(self) -> tuple[Webhook, ...]:
        """Return the surface's admission webhooks. Every replica serves them."""
        return ()

    async def prepare(self, writer: Writer) -> None:
        """Create what has to exist before decisions run. It is called when leadership is gained."""
