"""List and watch of one kind: a state machine that gets back in step with the server after every failure.

See decision 0021.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Generic, Never, TypeVar, assert_never

from msgspec import Struct

from haulout.base.backoff import Backoff, Sleep
from haulout.base.clock import Clock
from haulout.base.number import digits
from haulout.kube.codec import (
    Added,
    Bookmark,
    Broken,
    Deleted,
    Failure,
    Garbled,
    HasMetadata,
    Kind,
    Modified,
    Page,
    Shortened,
)
from haulout.kube.discovery import is_api_server
from haulout.kube.errors import (
    ApiError,
    ConnectionFailed,
    Gone,
    KubeError,
    NotFound,
    Overfull,
    RequestTimeout,
    TooLarge,
    error_from_status,
)
from haulout.kube.excerpt import Excerpt
from haulout.kube.listing import Pages
from haulout.kube.sink import Sink, is_from_the_future, trouble_code
from haulout.kube.transport import Transport
from haulout.kube.turns import Allowance

T = TypeVar("T", bound=HasMetadata)


class Tuning(Struct, frozen=True):
    """The time spans and sizes of a reflector. Spans are in seconds."""

    page_size: int = 500
    answer_for: float = 60.0  # the longest wait for one page of a list, or for the answer to a watch to begin
    watch_for: float = 300.0  # the server is asked to end a watch after this
    silence_for: float = 30.0  # a watch that has not ended this long after `watch_for` is dead
    quiet_for: float = 90.0  # so is a watch without a bookmark for this long, if the server sends one every minute
    unmarked_for: float = 60.0  # `watch_for` of a server that has sent no bookmark yet: only the end shows it is alive
    settle_for: float = 1.0  # a watch that has lasted this long works: servers report an expired version at once
    marker_for: float = 15.0  # a streaming list without progress for this long will never be marked as complete
    list_for: float = 600.0  # the longest that one streaming list may take
    refused_for: float = 600.0  # after a server refused a streaming list, lists are paged for this long
    absent_for: float = 10.0  # a kind that is not served is tried again after this
    backoff_from: float = 0.2
    backoff_to: float = 30.0
    backoff_share: tuple[float, float] = (0.0, 1.0)
    patience: float = 300.0  # the longest Retry-After that is obeyed
    batch: int = 100  # after so many objects, which take about 2 ms, other work has a turn
    batch_bytes: int = 256 * 2**10  # so it has after objects with so many bytes
    most_values: int = 0  # an object with more values is not decoded; 0 is any number
    most_pages: int = 0  # a list with more pages counts as endless; 0 is any number


# How many steps are measured together. Reading the processor time takes 1 µs, a step takes 10 to 40 µs.
STEPS_AT_ONCE = 8


class State(enum.Enum):
    """The state of a reflector. Each state's text says to which state a failure leads.

    The reflector waits before it goes on after a failure, except when a server refuses a streaming list.
    """

    STREAM = "stream"
    """Lists by a watch that begins with all objects; at the marking bookmark the list is complete and the watch goes on.

    Refused (422, 400, 500, an ERROR event, no marker in time, ended before it): PAGES, at once, and for some time.
    404: STREAM, slowly. Any other failure: STREAM; from the third in a row on PAGES.
    """

    PAGES = "pages"
    """Lists page by page. Complete: WATCH. Token expired (410): a list from the beginning, in larger pages.

    404: a list, slowly. Any other failure: a list from the beginning.
    """

    WATCH = "watch"
    """Watches from the last version. Ended by the server: WATCH; PROBE if it sent no line at all.

    Expired (410), without an event or bookmark for too long, a line without an end, or refused for a reason that
    waiting does not remove: a list. Version in the server's future: a list with `future`. 404: a list, slowly.
    Throttled, unreadable, unreachable: WATCH from the last version.
    """

    PROBE = "probe"
    """Asks whether the last version lies in the server's future. A server sends nothing on a watch from there.

    It does: a list with `future`. Else: WATCH.
    """


class Reflector(Generic[T]):
    """A list and watch of one kind, which keeps a sink equal to what the API server has.

    `run` reports every object under `path` to `sink`. It never ends, except with an error that is one of `gives_up`.

    `always_served`: every API server has this kind, so a 404 comes from another server and does not mean "no objects".
    `allowance`: the time that may be spent on another cluster. Without time left, reading waits for a turn.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        kind: type[T],
        sink: Sink[T],
        clock: Clock,
        *,
        labels: str = "",
        fields: str = "",
        tuning: Tuning | None = None,
        gives_up: tuple[type[KubeError], ...] = (),
        always_served: bool = False,
        allowance: Allowance | None = None,
        random: Random | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._transport = transport
        self._allowance = allowance
        # The objects and bytes that were read since other work had a turn.
        self._objects = self._bytes = 0
        self._path = path
        self._sink = sink
        self._clock = clock
        self._selectors = {k: v for k, v in (("labelSelector", labels), ("fieldSelector", fields)) if v}
        self._tuning = tuning or Tuning()
        self._kind = Kind(kind, self._tuning.most_values)
        self._random = random or Random()  # noqa: S311
        share = self._tuning.backoff_share
        self._backoff = Backoff(self._tuning.backoff_from, self._tuning.backoff_to, self._random, share)
        self._gives_up = gives_up
        self._always_served = always_served
        self._sleep = sleep
        self._version = ""
        self._future = False
        self._absent = False
        self._troubled = False
        self._streaming = False
        self._marked = False
        self._page_size = self._tuning.page_size
        self._paged_until = float("-inf")
        self.state = State.STREAM

    async def run(self) -> Never:
        while True:
            try:
                self.state = await self._step()
            except KubeError as error:
                is_absent = isinstance(error, NotFound) and await self._is_absent()
                if isinstance(error, self._gives_up) and (is_absent or not isinstance(error, NotFound)):
                    raise
                self.state, wait = await self._without() if is_absent else self._after(error)
                await self._sleep(wait)

    async def _step(self) -> State:
        match self.state:
            case State.STREAM:
                return await self._stream()
            case State.PAGES:
                return await self._pages()
            case State.WATCH:
                return await self._watch()
            case State.PROBE:
                return await self._probe()
            case _:
                assert_never(self.state)

    async def _stream(self) -> State:
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            return await self._follow(query, listing=True)
        except ApiError as error:
            if self.state is not State.STREAM or error.status.code not in _REFUSALS:
                raise
        return self._refused()

    async def _watch(self) -> State:
        return await self._follow({"resourceVersion": self._version}, listing=False)

    async def _follow(self, query: dict[str, str], *, listing: bool) -> State:
        tuning, loop = self._tuning, asyncio.get_running_loop()
        # A watch lasts for a random time, so that the watches of many reflectors do not end together. API servers send
        # no bookmarks for a kind that has not changed since they were started.
        longest = tuning.watch_for if self._marked or listing else min(tuning.watch_for, tuning.unmarked_for)
        lives = int(longest * self._random.uniform(0.9, 1.0))
        query |= {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(lives), **self._selectors}
        ends = lives + tuning.silence_for
        silence = min(ends, tuning.quiet_for) if self._marked else ends
        self._streaming = leaves = False
        try:
            async with (
                asyncio.timeout(tuning.answer_for) as bound,
                self._transport.stream(self._path, query=query, silence=silence, keep=self._kind.event_shape) as lines,
            ):
                self._streaming, opened_at = True, loop.time()
                if listing and not await self._initial(lines, bound):
                    return self._refused()
                # A list may take long, so the server was not asked to end this watch soon: we end it ourselves.
                leaves = listing and not self._marked
                bound.reschedule(loop.time() + (min(ends, tuning.quiet_for) if leaves else ends))
                heard = await self._changes(lines) or listing
        except RequestTimeout:
            if not self._streaming or self.state is State.STREAM:
                raise
            # The connection has been dead for an unknown time. Or another server answers by now, which sends no
            # bookmarks yet.
            self._marked = False
            self._trouble("unreachable", f"watch {self._path}: neither an event nor a bookmark for {silence:g} s")
            return self._list_anew()
        except TimeoutError:
            if not self._streaming:
                raise RequestTimeout(f"watch {self._path}: no answer for {tuning.answer_for:g} s") from None
            if self.state is State.STREAM:
                return self._refused()
            if leaves:
                return State.WATCH
            # The server should have ended the watch: this connection is dead. A new one may work at once.
            self._trouble("unreachable", f"watch {self._path}: the server neither sent anything nor ended it in time")
            return State.WATCH
        if loop.time() - opened_at < tuning.settle_for:
            raise ConnectionFailed(f"watch {self._path}: ended by the server as soon as it began")
        return State.WATCH if heard else State.PROBE

    async def _initial(self, lines: AsyncIterator[bytes], bound: asyncio.Timeout) -> bool:
        """Read a streaming list. Return False if it ends without the bookmark that marks it as complete.

        A server that does not support streaming lists sends the objects, then changes, and never that bookmark. So the
        deadline moves on as long as objects come. With the first event of another type it becomes final.
        """
        loop, tuning = asyncio.get_running_loop(), self._tuning
        last_at = loop.time() + tuning.list_for
        bound.reschedule(loop.time() + tuning.marker_for)
        extended_at = loop.time()
        self._sink.begin()
        async for line in lines:
            event = await self._take(line)
            if isinstance(event, Bookmark) and event.ends_list:
                bound.reschedule(last_at)
                await self._listed(event.object.metadata.resource_version)
                self.state = State.WATCH
                return True
            now = loop.time()
            if not isinstance(event, Added | Broken):
                last_at = min(last_at, now + tuning.marker_for)
            if now > extended_at + tuning.marker_for / 10:
                extended_at = now
                bound.reschedule(min(now + tuning.marker_for, last_at))
            await self._let_others_work(len(line))
        return False

    async def _changes(self, lines: AsyncIterator[bytes]) -> bool:
        """Read a watch to its end. Return whether any line came."""
        settled = asyncio.get_running_loop().call_later(self._tuning.settle_for, self._well)
        count = 0
        try:
            async for line in lines:
                match await self._take(line):
                    case Added(obj) | Modified(obj) | Deleted(obj):
                        self._version = obj.metadata.resource_version or self._version
                    case Bookmark(mark):
                        self._marked = True
                        self._version = mark.metadata.resource_version or self._version
                    case Broken(_, version, _):
                        self._version = version or self._version
                if not count:
                    self._well()
                count += 1
                await self._let_others_work(len(line))
        finally:
            settled.cancel()
        return count > 0

    async def _take(self, line: bytes) -> Added[T] | Modified[T] | Deleted[T] | Bookmark | Broken | None:
        """Decode one line of a watch and report it to the sink. For another cluster, wait for the allowance first."""
        if self._allowance is None:
            return self._take_now(line)
        await self._allowance.wait()
        began = self._allowance.begin()
        try:
            return self._take_now(line)
        finally:
            self._allowance.end(began, len(line))

    def _take_now(self, line: bytes) -> Added[T] | Modified[T] | Deleted[T] | Bookmark | Broken | None:
        event = self._kind.event(line)
        match event:
            case Added(obj) | Modified(obj):
                self._sink.put(obj)
                if isinstance(line, Excerpt):
                    self._sink.report_oversized(obj.metadata, line.length)
            case Deleted(obj):
                self._sink.delete(obj)
            case Broken(name, _, why):
                self._sink.report_broken(name, why)
            case Failure(status):
                raise error_from_status(status)
        return event

    async def _pages(self) -> State:
        within = self._tuning.answer_for
        pages = Pages(self._transport, self._path, self._kind, self._selectors, size=self._page_size, within=within)
        version = await self._take_page(await pages.next(), begins=True)
        count = 1
        while not pages.complete:
            if self._allowance is not None:
                # Turns are taken for objects only. A server that sends many empty pages would never have to wait.
                await self._allowance.pause()
            if count == self._tuning.most_pages:
                raise Garbled(f"list {self._path}: no end after {count} pages")
            count += 1
            await self._take_page(await pages.next())
        await self._listed(version)
        return State.WATCH

    async def _take_page(self, page: Page[T], *, begins: bool = False) -> str:
        """Report the objects of one page to the sink. Return the page's version."""
        if begins:
            self._sink.begin()
        steps = self._taking(page)
        while await self._goes_on(steps):
            await self._let_others_work(0)
        return page.version

    async def _goes_on(self, steps: Iterator[None]) -> bool:
        """Run the next step, or for another cluster a few steps, after waiting for the allowance.

        Return False when no step is left.
        """
        if self._allowance is None:
            return next(steps, self) is not self
        await self._allowance.wait()
        began = self._allowance.begin()
        self._objects += STEPS_AT_ONCE - 1
        try:
            return all(next(steps, self) is not self for _ in range(STEPS_AT_ONCE))
        finally:
            self._allowance.end(began)

    def _taking(self, page: Page[T]) -> Iterator[None]:
        """Decode the items of a page and report them to the sink, one in each step."""
        for item in page:
            match item:
                case Broken(name, _, why):
                    self._sink.report_broken(name, why)
                case Shortened(obj, length):
                    self._sink.put(obj)
                    self._sink.report_oversized(obj.metadata, length)
                case obj:
                    self._sink.put(obj)
            yield

    async def _let_others_work(self, length: int) -> None:
        """Give other tasks a turn after each batch of objects. `length`: the bytes of the object that was just read."""
        self._objects += 1
        self._bytes += length
        if self._objects < self._tuning.batch and self._bytes < self._tuning.batch_bytes:
            return
        self._objects = self._bytes = 0
        await asyncio.sleep(0)

    async def _probe(self) -> State:
        query = {"limit": "1", "resourceVersion": self._version, "resourceVersionMatch": "NotOlderThan"}
        within, keep = self._tuning.answer_for, self._kind.page_shape
        await self._transport.request("GET", self._path, query=query, timeout=within, keep=keep)
        return State.WATCH

    async def _listed(self, version: str) -> None:
        # A list has the latest version there is. One with an older version than we have seen is from a restored backup.
        future = self._future or not version or _before(version, self._version)
        self._version, self._future = version, False
        self._absent = self._troubled = False
        self._page_size = self._tuning.page_size
        steps = self._sink.end_list(version, future=future)
        if self._allowance is None:
            for _ in steps:
                pass
        else:
            while await self._goes_on(steps):
                await self._let_others_work(0)

    def _well(self) -> None:
        """End a row of failures: reset the back-off, and report `fine` to the sink.

        Only a working watch ends it. After a list, the watch may fail for the same reason again.
        """
        self._backoff.reset()
        if self._troubled:
            self._troubled = False
            self._sink.fine()

    def _trouble(self, code: str, why: str) -> None:
        self._troubled = True
        self._sink.trouble(code, why)

    def _refused(self) -> State:
        self._paged_until = self._clock.monotonic() + self._tuning.refused_for
        return State.PAGES

    def _list_anew(self) -> State:
        paged = self._clock.monotonic() < self._paged_until or self._backoff.failures >= 3
        return State.PAGES if paged else State.STREAM

    def _after(self, error: KubeError) -> tuple[State, float]:
        """Report an error to the sink. Return the next state, and how many seconds to wait before it."""
        wait = self._backoff.fail()
        if isinstance(error, ApiError) and error.retry_after:
            wait += min(error.retry_after, self._tuning.patience)
        self._trouble(trouble_code(error), str(error))
        if self.state is State.PAGES and isinstance(error, Gone):
            self._page_size = min(self._page_size * 2, self._tuning.page_size * 8)
        if is_from_the_future(error):
            self._future = True
        elif self.state in (State.WATCH, State.PROBE) and not self._ends_watch(error):
            return State.WATCH, wait
        return self._list_anew(), wait

    def _ends_watch(self, error: KubeError) -> bool:
        """Whether the same watch would fail again with this error, however long the reflector waits."""
        if isinstance(error, TooLarge | Overfull) or (isinstance(error, Garbled) and self._backoff.failures >= 3):
            return True
        if not isinstance(error, ApiError) or error.status.code in (401, 403, 429):
            return False
        # A server that answers with 5xx recovers. One that fails within a watch may fail at an event that it has to
        # send, and then it would fail at that event each time.
        return error.status.code < 500 or (self._streaming and self.state is State.WATCH)

    async def _is_absent(self) -> bool:
        """Whether the kind is not served. Only the 404 of an API server says so, not that of a load balancer."""
        return not self._always_served and await is_api_server(self._transport, within=self._tuning.answer_for)

    async def _without(self) -> tuple[State, float]:
        if self._troubled or not self._absent:
            self._sink.begin()
            await self._listed("")
            self._absent = True
        return self._list_anew(), self._tuning.absent_for


# The codes of servers that refuse streaming lists: gate off, old server, storage too old, proxy.
_REFUSALS = frozenset({400, 405, 406, 415, 422, 500, 501})


def _before(version: str, other: str) -> bool:
    # Resource versions are numbers of 64 bits.
    first, second = digits(version, 20), digits(other, 20)
    return first is not None and second is not None and first < second
