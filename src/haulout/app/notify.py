"""The part of the process for the notify surface: its configuration file as a row, its channels, probes and webhooks."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from haulout.app.announcements import Announcements
from haulout.app.hooks import Hooks
from haulout.app.parts import Part, Surroundings
from haulout.app.run_times import RunTimes
from haulout.clients.prometheus import Prometheus
from haulout.clients.sns import KEYS, has_credentials, is_installed
from haulout.cluster.view import MARK
from haulout.core.admission import Webhook
from haulout.core.declaration import Context
from haulout.kube.errors import ApiError
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.runtime.metrics import Sample
from haulout.runtime.probes import Probe
from haulout.runtime.sender import Channel
from haulout.surfaces.notify.admit import webhooks
from haulout.surfaces.notify.declared_metrics import RELOAD_ERRORS, REMOVALS, REMOVED_PODS
from haulout.surfaces.notify.metrics import samples
from haulout.surfaces.notify.notice.deliver import CHANNEL, PATIENT_CHANNEL
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.recipes.hooks import CHANNEL as HOOKS
from haulout.surfaces.notify.recipes.hooks import PROBE as HOOK_STATUS
from haulout.surfaces.notify.scheduler.alerts import PROBE as ALERT_PROBE
from haulout.surfaces.notify.scheduler.alerts import AlertQuery
from haulout.surfaces.notify.scheduler.present import samples as choices
from haulout.surfaces.notify.scheduler.recording import CHANNEL as HISTORY_CHANNEL
from haulout.surfaces.notify.scheduler.recording import PROBE as HISTORY_PROBE
from haulout.surfaces.notify.scheduler.recording import unstored_history
from haulout.surfaces.notify.surface import NOTIFY
from haulout.surfaces.notify.wire import KIND, SURFACE, NoticeRow

log = logging.getLogger("haulout.notify")


class Notices(Part):
    """The notify surface as a part of the process.

    It does not start with an invalid file. If the file becomes invalid later, the last good content stays in force.
    """

    declaration = NOTIFY

    cannot_start = "unable to create controller: "

    def __init__(self, around: Surroundings) -> None:
        around.metrics.count(RELOAD_ERRORS, 0)
        super().__init__(around)

    def complete(self, options: Options, context: Context) -> Options:
        return msgspec.structs.replace(options, sns=_serves_topics(options))

    def loaded(self, options: Options) -> Mapping[str, object]:
        _warn_of_topics(options)
        return {}

    def examined(self, *, is_valid: bool) -> None:
        if not is_valid:
            self.around.metrics.count(RELOAD_ERRORS)

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
        content = unstored_history(self.around.store, self.around.clock.now())
        if content is not None:
            await RunTimes(writer).store(content)

    async def introduce(self, transport: Transport) -> None:
        """Fail if the API server does not answer and this surface is served alone, as the original does.

        Beside other surfaces the process waits for the API server instead. A refusal counts as an answer.
        """
        if self.settings.alone:
            with contextlib.suppress(ApiError):
                await transport.request("GET", "/version")

    def webhooks(self) -> tuple[Webhook, ...]:
        return webhooks()


def _serves_topics(options: Options) -> bool:
    """Whether messages are sent to SNS: as configured, else if there are credentials and the library is installed."""
    is_enabled = options.notifications.sns.enabled
    return is_enabled if isinstance(is_enabled, bool) else has_credentials(os.environ) and is_installed()


def _warn_of_topics(options: Options) -> None:
    """Log what keeps messages from SNS, or may do so."""
    is_enabled = options.notifications.sns.enabled
    if is_enabled is False:
        return
    if has_credentials(os.environ):
        if not is_installed():
            log.warning("messages are not sent to SNS: it needs the extra `sns` (pip install 'haulout[sns]')")
    elif is_enabled is True:
        path = Path(os.environ.get("HOME", "")) / ".aws" / "credentials"
        names = f"'{KEYS[0]}' & '{KEYS[1]}'"
        missing = f"AWS env vars {names} and AWS creds file {path} do not exist"
        log.warning("other credentials are tried for SNS", extra={"because": missing})
