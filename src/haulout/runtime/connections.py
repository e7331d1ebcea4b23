"""The state of each workload cluster's connection, published as rows that decisions read."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from haulout.base.clock import Clock
from haulout.cluster.key import Key
from haulout.cluster.rows import Connection
from haulout.cluster.store import Store

# The reasons for which a connection was opened again.
ROTATED, UNAUTHORIZED, NETWORK = "rotated", "unauthorized", "network"
# With an expired version the server asks for a new list, so it can be reached.
ORDINARY = frozenset({"expired"})

OnReconnect = Callable[[str, str], None]


class Connections:
    """The state of the connection to each other cluster, published as rows that decisions read.

    An access is what a connection is made from, such as a kubeconfig. When it changes, the new access takes over once
    it works.

    `on_reconnect` is called with the cluster and the reason each time that a connection works again, `on_close` with
    the cluster when it is closed.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        on_reconnect: OnReconnect = lambda cluster, reason: None,
        on_close: Callable[[str], None] = lambda cluster: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_reconnect = on_reconnect
        self._on_close = on_close
        # The clusters that have been reached since their access was opened.
        self._reached: set[str] = set()
        # The states and errors of accesses that cannot be used, for as long as decisions ask for these accesses.
        self._refusals: dict[str, tuple[str, str]] = {}

    def opened(self, cluster: str, access: Hashable) -> None:
        self._refusals.pop(cluster, None)
        self._write(cluster, Connection.CONNECTING, "it has not answered yet", access)

    def refused(self, cluster: str, state: str, why: str) -> None:
        """Note that an access cannot be used. The one before it stays in use."""
        self._refusals[cluster] = (state, why)
        self._write(cluster, state, why)

    def astray(self, cluster: str, why: str) -> None:
        """Note that the access that should take over does not work. It is reported once the access in use works."""
        self._refusals[cluster] = (Connection.ASTRAY, why)
        row = self._row(cluster)
        if row is not None and row.state in (Connection.FINE, *Connection.UNUSED):
            self._write(cluster, Connection.ASTRAY, why)

    def accepted(self, cluster: str) -> None:
        """Note that decisions no longer ask for the access that was refused. The state becomes that without it."""
        self._refusals.pop(cluster, None)
        row = self._row(cluster)
        if row is not None and row.state in Connection.UNUSED:
            self._write(cluster, Connection.FINE if cluster in self._reached else Connection.CONNECTING)

    def trouble(self, cluster: str, code: str, why: str) -> None:
        """Note a failure. It is reported once while the state stays the same, even if the message changes."""
        row = self._row(cluster)
        if row is not None and code not in ORDINARY and row.state != code:
            self._write(cluster, code, why)

    def fine(self, cluster: str) -> None:
        """Note that the cluster answers through the access in use. A refusal of its successor stays in the state."""
        row = self._row(cluster)
        if row is None:
            return
        again = cluster in self._reached
        self._reached.add(cluster)
        state, error = self._refusals.get(cluster, (Connection.FINE, ""))
        if row.state == state:
            return
        self._write(cluster, state, error)
        if again:
            self._on_reconnect(cluster, UNAUTHORIZED if row.state == UNAUTHORIZED else NETWORK)

    def rotated(self, cluster: str, access: Hashable) -> None:
        """Note that another access has taken over."""
        self._reached.add(cluster)
        self._refusals.pop(cluster, None)
        self._write(cluster, Connection.FINE, "", access)
        self._on_reconnect(cluster, ROTATED)

    def closed(self, cluster: str) -> None:
        self._reached.discard(cluster)
        self._refusals.pop(cluster, None)
        self._store.erase(_key(cluster))
        self._on_close(cluster)

    def _row(self, cluster: str) -> Connection | None:
        row = self._store.row(_key(cluster))
        return row if isinstance(row, Connection) else None

    def _write(self, cluster: str, state: str, error: str = "", access: Hashable = None) -> None:
        known = self._row(cluster)
        since = known.since if known is not None and known.state == state else self._clock.now()
        access = access if access is not None or known is None else known.access
        self._store.write(Connection(key=_key(cluster), state=state, since=since, error=error, access=access))


def _key(cluster: str) -> Key:
    return Key(cluster, Connection.KIND, "", "")
