"""The leader elections of a process: its own, and one for each surface whose original holds a Lease, too."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Mapping

from haulout.base.clock import Clock
from haulout.kube.config import own_namespace
from haulout.kube.lease import LABELS, SERVED, Election, Terms
from haulout.kube.transport import Transport
from haulout.settings.settings import Settings
from haulout.surfaces.registry import enabled_surfaces


class NoNamespace(Exception):
    """The settings ask for leader election, but no namespace for its Lease is known."""


class Elections:
    """Makes the elections that the settings ask for. The process has one identity in all of them.

    `on_rewound`: called when the API server shows an earlier state of the process's Lease than before.
    """

    def __init__(self, settings: Settings, transport: Transport, clock: Clock, on_rewound: Callable[[], None]) -> None:
        self._on_rewound = on_rewound
        self._settings = settings
        self._transport = transport
        self._clock = clock
        self._identity = f"{socket.gethostname()}_{uuid.uuid4()}"

    def own(self) -> Election | None:
        """Return the election of the process; None if the settings switch leader election off."""
        lease = self._settings.lease
        if lease is None:
            return None
        outside = lease.outside and (self._settings.namespace or lease.outside)
        namespace = lease.namespace or own_namespace() or outside
        if not namespace:
            raise NoNamespace(
                "leader election needs a namespace: none is set and this is not a pod (no service account)"
            )
        return Election(
            self._transport,
            self._clock,
            namespace=namespace,
            name=lease.name,
            identity=self._identity,
            terms=Terms(lease.duration, lease.renew_within, lease.retry),
            labels={} if self._settings.alone else LABELS,
            annotations=self._annotations(),
            release=lease.release,
            on_rewound=self._on_rewound,
        )

    def _annotations(self) -> dict[str, str]:
        """Return the annotation with the surfaces of the process. The Lease of an original is left as the original writes it."""
        if self._settings.alone:
            return {}
        names = sorted({each.name for each in enabled_surfaces(self._settings.blocks)})
        return {SERVED: ",".join(names)}

    def of_surfaces(self, names: Mapping[str, str]) -> dict[str, Election]:
        """Return the elections of surfaces, by the surface's name. `names`: the name of each surface's Lease."""
        return {
            surface: Election(
                self._transport,
                self._clock,
                namespace=namespace,
                name=names[surface],
                identity=self._identity,
                release=True,
            )
            for surface, namespace in self._settings.surface_leases.items()
        }
