"""Puts the notify surface into a process: its configuration file becomes a row, its messages get their ways out."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from haulout.app.announcements import Announcements
from haulout.app.hooks import Hooks
from haulout.app.parts import CannotStart, Part, Surroundings
from haulout.app.run_times import RunTimes
from haulout.clients.prometheus import Prometheus
from haulout.clients.sns import KEYS, has_credentials, is_installed
from haulout.cluster.rows import Value
from haulout.cluster.view import MARK
from haulout.core.admission import Webhook
from haulout.core.decision import Source
from haulout.kube.config import own_namespace
from haulout.kube.errors import ApiError
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.plugins.file_lint import line_of
from haulout.runtime.files import WatchedFile
from haulout.runtime.metrics import Sample
from haulout.runtime.probes import Probe
from haulout.runtime.sender import Channel
from haulout.settings.context import context_of
from haulout.settings.settings import Settings
from haulout.surfaces.notify.admit import webhooks
from haulout.surfaces.notify.deliver import CHANNEL, PATIENT_CHANNEL
from haulout.surfaces.notify.hooks import CHANNEL as HOOKS
from haulout.surfaces.notify.hooks import PROBE as HOOK_STATUS
from haulout.surfaces.notify.load import load
from haulout.surfaces.notify.metrics import RELOAD_ERRORS, REMOVALS, REMOVED_PODS
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.present import samples
from haulout.surfaces.notify.scheduler.alerts import PROBE as ALERT_PROBE
from haulout.surfaces.notify.scheduler.alerts import AlertQuery
from haulout.surfaces.notify.scheduler.present import samples as choices
from haulout.surfaces.notify.scheduler.recording import CHANNEL as HISTORY_CHANNEL
from haulout.surfaces.notify.scheduler.recording import PROBE as HISTORY_PROBE
from haulout.surfaces.notify.scheduler.recording import unstored
from haulout.surfaces.notify.settings import NotifySettings
from haulout.surfaces.notify.surface import CONFIG_KEY, NOTIFY, sources
from haulout.surfaces.notify.wire import KIND, SURFACE, NoticeRow

log = logging.getLogger("haulout.notify")


class Notices(Part):
    """The notify surface as a part of the process: it follows its configuration file.

    Without a valid file it does not start. An edit that makes the file invalid is refused: the last good one counts on.
    """

    declaration = NOTIFY

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._settings = around.settings
        self._options: Options | None = None
        self.around.metrics.count(RELOAD_ERRORS, 0)
        self._watch(around.settings)
        self._file.look()

    @property
    def options(self) -> Options:
        assert self._options is not None
        return self._options

    def _watch(self, settings: Settings) -> None:
        self._path = _path(settings)
        self._file = WatchedFile(Path(self._path), self._changed)

    def watches(self) -> frozenset[Source]:
        return sources(self._options)

    def look(self, *, closely: bool = False) -> None:
        self._file.look(closely=closely)

    def follow(self, settings: Settings) -> None:
        self._settings = settings
        if _path(settings) != self._path:
            self._watch(settings)
            self._file.look()
        elif self._options is not None:
            self._take(self._options)

    def samples(self) -> Iterable[Sample]:
        rows = [row for row in self.around.store.rows("", KIND) if isinstance(row, NoticeRow)]
        yield from samples(rows, self.around.clock.now())
        yield from choices(self.around.store.rows("", MARK))
        for action, counter in REMOVALS.items():
            for labels, value in self.around.metrics.series(counter).items():
                if ("surface", SURFACE) in labels:
                    result = tuple(each for each in labels if each[0] == "result")
                    yield REMOVED_PODS, (("action", action), *result), value

    def channels(self, transport: Transport) -> Mapping[str, Channel]:
        writer = Writer(transport)
        made = Announcements(writer, self.around.clock, self.around.metrics, lambda: self.options)
        return {
            CHANNEL: made,
            PATIENT_CHANNEL: made.patiently,
            HOOKS: Hooks(writer, lambda: self.options).call,
            HISTORY_CHANNEL: RunTimes(writer).store,
        }

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        writer = Writer(transport)

        async def alerts(question: AlertQuery) -> bool:
            return await Prometheus(self.around.clock).has_rows(question.url, question.query)

        return {
            HOOK_STATUS: Hooks(writer, lambda: self.options).status,
            HISTORY_PROBE: RunTimes(writer).read,
            ALERT_PROBE: alerts,
        }

    async def leave(self, writer: Writer) -> None:
        content = unstored(self.around.store, self.around.clock.now())
        if content is not None:
            await RunTimes(writer).store(content)

    async def introduce(self, transport: Transport) -> None:
        """End without an API server, as the original does. Beside other surfaces it is waited for; a refusal is an answer."""
        if self._settings.alone:
            with contextlib.suppress(ApiError):
                await transport.request("GET", "/version")

    def webhooks(self) -> tuple[Webhook, ...]:
        return webhooks()

    def _changed(self, content: bytes | OSError) -> None:
        problems = [f"{self._path}: {content.strerror}"] if isinstance(content, OSError) else []
        if isinstance(content, bytes):
            read = load(content)
            if isinstance(read, Options):
                self._take(read)
                return
            problems = [str(line_of(each, self._path, is_error=True)) for each in read]
        self._refuse(problems)

    def _refuse(self, problems: list[str]) -> None:
        if self._options is None:
            raise CannotStart(f"unable to create controller: {'; '.join(problems)}")
        self.around.metrics.count(RELOAD_ERRORS)
        for line in problems:
            log.error("configuration is invalid, the last good one stays in force", extra={"error": line})
        self.around.troubles.invalid(self.name, f"the last good configuration stays in force: {'; '.join(problems)}")

    def _take(self, read: Options) -> None:
        settings = self._settings
        options = msgspec.structs.replace(
            read,
            alone=settings.alone,
            namespace=settings.namespace or own_namespace() or settings.webhooks.outside,
            sns=self._serves_topics(read),
            rules=context_of(settings).rules,
        )
        if self._options is not None:
            self.around.troubles.valid(self.name, f"{self._path} is valid again")
            log.info("configuration loaded", extra={"file": self._path})
        self._options = options
        self.around.store.write(Value(key=CONFIG_KEY, value=options))
        self.around.poke()

    def _serves_topics(self, read: Options) -> bool:
        wanted = read.notifications.sns.enabled
        if wanted is False:
            return False
        if not has_credentials(os.environ):
            if wanted is True:
                path = Path(os.environ.get("HOME", "")) / ".aws" / "credentials"
                names = f"'{KEYS[0]}' & '{KEYS[1]}'"
                missing = f"AWS env vars {names} and AWS creds file {path} do not exist"
                log.warning("other credentials are tried for SNS", extra={"because": missing})
            return wanted is True
        if not is_installed():
            log.warning("messages are not sent to SNS: it needs the extra `sns` (pip install 'haulout[sns]')")
            return wanted is True
        return True


def _path(settings: Settings) -> str:
    return (settings.of(NotifySettings) or NotifySettings()).config
