"""The content of `kubernikus.yaml`, and the options that decisions read of it."""

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

# Shorter intervals are treated as mistakes, because they would ask the API server without a pause.
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
    """The content of `kubernikus.yaml`. The periods and timeouts of drains are required but have no effect."""

    intervals: _Intervals
    cloud_provider_secret: CloudSecret = CloudSecret()


class Options(msgspec.Struct, frozen=True):
    """The settings of the kubernikus surface.

    `pace_for`: how often the version is probed, and the deletion of a server that still exists is repeated.
    `force`: delete pods that terminate for longer than they should.
    `secret`: namespace and name of the Secret with the credentials.
    `alone`: it is the original's drop-in, so there are no other surfaces.
    `rules`: the pod rules of all drains.
    """

    pace_for: timedelta
    force: bool = False
    secret: tuple[str, str] = ("", "")
    alone: bool = True
    rules: PodRules = PodRules()


def load(data: bytes | str, *, source: str, environment: Mapping[str, str]) -> Options:
    """Return the options in the file. Raises ConfigProblem for the first error."""
    return options_of(read_file(Kubernikus, data, source=source, environment=environment))


def options_of(read: Kubernikus) -> Options:
    """Return the options from the content of the file."""
    return Options(
        pace_for=max(read.intervals.requeue, SHORTEST_FOR),
        force=read.intervals.pod_eviction.force,
        secret=read.cloud_provider_secret.place,
    )


class _Settings(Protocol):
    config: str


def make_options(settings: _Settings, context: Context) -> Options:
    """Return the options from the file and the context in which the surface is served."""
    read = examined_file(Kubernikus, settings.config, context.files, context.environment)
    return msgspec.structs.replace(options_of(read), alone=context.alone, rules=context.rules)
