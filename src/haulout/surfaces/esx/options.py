"""The content of `esx.yaml`, and the options that decisions read of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Protocol

import msgspec

from haulout.core.declaration import Context
from haulout.core.drain.options import PodRules
from haulout.plugins.config import Config, GoDuration, Min
from haulout.plugins.document import read_file
from haulout.plugins.file_lint import examined_file

SHORTEST_FOR = timedelta(seconds=1)
SHORTEST_POLL_FOR = timedelta(milliseconds=100)


class _Unused(Config, frozen=True, kw_only=True):
    period: GoDuration = timedelta(0)
    timeout: GoDuration = timedelta(0)


class _Check(Config, frozen=True, kw_only=True):
    period: GoDuration
    jitter: Annotated[float, Min(0.001)] = 0.0


class _Eviction(Config, frozen=True, kw_only=True):
    period: GoDuration
    timeout: GoDuration
    force: bool = False


class _Shutdown(Config, frozen=True, kw_only=True):
    period: GoDuration
    timeout: GoDuration


class _Intervals(Config, frozen=True, kw_only=True):
    check: _Check
    pod_deletion: _Unused = _Unused()
    pod_eviction: _Eviction
    vm_shutdown: _Shutdown


class Login(Config, frozen=True, kw_only=True):
    """A user name and password for a vCenter, from `esx.yaml`."""

    username: str
    password: str = ""

    def __repr__(self) -> str:
        """Leave out the password, so that no log shows it."""
        return f"Login({self.username!r})"


class VCenterSettings(Config, frozen=True, kw_only=True):
    """How to reach the vCenter of each zone.

    `credentials`: by zone. The zone's letter or digit replaces `$AZ` in the address.
    """

    template_url: str
    insecure: bool = False
    credentials: dict[str, Login]


class Esx(Config, frozen=True, kw_only=True):
    """The content of `esx.yaml`. The other periods and timeouts of drains have no effect."""

    intervals: _Intervals
    alarms: tuple[str, ...] = ()
    v_centers: VCenterSettings


class Options(msgspec.Struct, frozen=True):
    """The settings of the esx surface, without credentials.

    `pace_for`, `jitter`: how often the state of a host is probed.
    `force`: delete pods that terminate for longer than they should.
    `poll_for`: how often a virtual machine that shuts down is looked at.
    `give_up_for`: after which time it is switched off.
    `alone`: it is the original's drop-in, so there are no other surfaces.
    `rules`: the pod rules of all drains.
    """

    pace_for: timedelta
    jitter: float
    force: bool
    poll_for: timedelta
    give_up_for: timedelta
    alarms: frozenset[str] = frozenset()
    alone: bool = True
    rules: PodRules = PodRules()


def load(data: bytes | str, *, source: str, environment: Mapping[str, str]) -> tuple[Options, VCenterSettings]:
    """Return the options and the vCenter settings in the file. Raises ConfigProblem for the first error."""
    # Any keys are allowed, because zones may be digits, which YAML reads as numbers unless they are in quotes.
    read = read_file(Esx, data, source=source, environment=environment, any_keys=True)
    return options_of(read), read.v_centers


def options_of(read: Esx) -> Options:
    """Return the options from the content of the file."""
    intervals = read.intervals
    return Options(
        pace_for=max(intervals.check.period, SHORTEST_FOR),
        jitter=intervals.check.jitter,
        force=intervals.pod_eviction.force,
        poll_for=max(intervals.vm_shutdown.period, SHORTEST_POLL_FOR),
        give_up_for=intervals.vm_shutdown.timeout,
        alarms=frozenset(read.alarms),
    )


class _Settings(Protocol):
    config: str


def make_options(settings: _Settings, context: Context) -> Options:
    """Return the options from the file and the context.

    The credentials are not read for that, because their environment variables may not be set here.
    """
    read = examined_file(Esx, settings.config, context.files, context.environment, but="vCenters", any_keys=True)
    return msgspec.structs.replace(options_of(read), alone=context.alone, rules=context.rules)
