"""`kubernikus.yaml`, and the options that decisions read of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

import msgspec

from haulout.core.declaration import Context
from haulout.core.drain.options import PodRules
from haulout.plugins.cloud import CloudSecret
from haulout.plugins.config import Config, GoDuration
from haulout.plugins.document import read_file
from haulout.plugins.file_lint import examined_file

# Shorter paces are taken for mistakes: they would ask the API server without a pause.
SHORTEST_FOR = timedelta(seconds=1)


class _Pace(Config, frozen=True, kw_only=True):
    period: GoDuration
    timeout: GoDuration


class _Eviction(Config, frozen=True, kw_only=True):
    period: GoDuration
    timeout: GoDuration
    force: bool = False


class _Intervals(Config, frozen=True, kw_only=True):
    requeue: GoDuration
    pod_deletion: _Pace
    pod_eviction: _Eviction


class Kubernikus(Config, frozen=True, kw_only=True):
    """`kubernikus.yaml`. The periods and time-outs of drains are required and not used."""

    intervals: _Intervals
    cloud_provider_secret: CloudSecret = CloudSecret()


class Options(msgspec.Struct, frozen=True):
    """The settings of Kubernikus, as decisions read them.

    `pace_for`: how often the version is asked for, and a server that is still there is deleted again. `force`: pods
    that terminate for longer than they may are deleted. `secret`: where the credentials are. `alone`: Kubernikus runs
    as a drop-in, without other surfaces. `rules`: what all drains do with certain pods.
    """

    pace_for: timedelta
    force: bool = False
    secret: tuple[str, str] = ("", "")
    alone: bool = True
    rules: PodRules = PodRules()


def load(data: bytes | str, *, source: str, environment: Mapping[str, str]) -> Options:
    """Return what the file says; raises ConfigProblem for the first thing that is wrong."""
    return options_of(read_file(Kubernikus, data, source=source, environment=environment))


def options_of(read: Kubernikus) -> Options:
    """Return the options of a file that has been read."""
    return Options(
        pace_for=max(read.intervals.requeue, SHORTEST_FOR),
        force=read.intervals.pod_eviction.force,
        secret=read.cloud_provider_secret.place,
    )


class _Settings(Protocol):
    config: str


def served(settings: _Settings, context: Context) -> Options:
    """Return what decisions read."""
    read = examined_file(Kubernikus, settings.config, context.files, context.environment)
    return msgspec.structs.replace(options_of(read), alone=context.alone, rules=context.rules)
