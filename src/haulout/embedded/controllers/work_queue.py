"""The queue of a simulated controller: keys to sync, each once, after all changes of the instant were delivered."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from haulout.embedded.interfaces import Timers
from haulout.kube.errors import ApiError, NotFound

K = TypeVar("K", bound=Hashable)

# As client-go's default rate limiter: from 5 ms, doubling, to 1000 s.
_FIRST_RETRY = timedelta(milliseconds=5)
_LAST_RETRY = timedelta(seconds=1000)


class WorkQueue(Generic[K]):
    """A queue of the keys that a simulated controller has to sync, each at most once.

    `sync` is called with each key and may write. Handlers of changes only call `add`, which is safe at any moment.
    """

    def __init__(self, timers: Timers, sync: Callable[[K], None]) -> None:
        self._timers = timers
        self._sync = sync
        self._waiting: dict[K, None] = {}
        self._later: dict[K, tuple[datetime, Callable[[], None]]] = {}
        self._failures: dict[K, int] = {}
        self._planned = False

    def add(self, key: K) -> None:
        self._waiting[key] = None
        if not self._planned:
            self._planned = True
            self._timers.at(self._timers.now(), self._run)

    def add_at(self, key: K, instant: datetime) -> None:
        """Queue a key at an instant. An earlier planned instant stays."""
        if key in self._later:
            planned, cancel = self._later[key]
            if planned <= instant:
                return
            cancel()
        self._later[key] = (instant, self._timers.at(instant, lambda: self._due(key)))

    def forget(self, key: K) -> None:
        self._waiting.pop(key, None)
        self._failures.pop(key, None)
        if planned := self._later.pop(key, None):
            planned[1]()

    def _due(self, key: K) -> None:
        self._later.pop(key, None)
        self.add(key)

    def _run(self) -> None:
        """Sync all waiting keys. Keys that are added meanwhile wait for the next run."""
        keys, self._waiting, self._planned = self._waiting, {}, False
        rest = iter(keys)
        try:
            for key in rest:
                self._sync_safely(key)
        finally:
            # A bug is raised to the caller of the timers; the remaining keys are queued again, so that it stops no other.
            for key in rest:
                self.add(key)

    def _sync_safely(self, key: K) -> None:
        try:
            self._sync(key)
        except NotFound:
            self._failures.pop(key, None)
        except ApiError:
            self._retry(key)
        except Exception:
            self._retry(key)
            raise
        else:
            if self._failures:
                self._failures.pop(key, None)

    def _retry(self, key: K) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_at(key, self._timers.now() + min(_FIRST_RETRY * 2 ** min(failures - 1, 20), _LAST_RETRY))
