"""Keys that wait to be looked at: each once, in the order of asking, after the changes of the instant have been told."""

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
    """A queue of the keys that a simulated controller has to look at, each at most once.

    `look` writes; what is told of changes only asks for a look, so it may be told at any moment.
    """

    def __init__(self, timers: Timers, look: Callable[[K], None]) -> None:
        self._timers = timers
        self._look = look
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
        """No later than then; an earlier wish stands."""
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
        """What comes up meanwhile has its turn after everybody else's."""
        keys, self._waiting, self._planned = self._waiting, {}, False
        rest = iter(keys)
        try:
            for key in rest:
                self._look_safely(key)
        finally:
            # Whoever runs the timers is told of a bug; but an object that nobody can read stops nobody else.
            for key in rest:
                self.add(key)

    def _look_safely(self, key: K) -> None:
        try:
            self._look(key)
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
