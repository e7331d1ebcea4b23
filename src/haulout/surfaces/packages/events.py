"""The events that the packages surface reports, under the reporter of the original."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.core.action import Tell
from haulout.surfaces.packages.wire import REPORTER


def event(regarding: Key, reason: str, note: str, *, action: str = "", warning: bool = False) -> Tell:
    return Tell(regarding, reason, action or reason, note, REPORTER, warning=warning, core=True)
