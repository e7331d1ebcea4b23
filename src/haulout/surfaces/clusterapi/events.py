"""Events about Machines."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.core.action import Tell
from haulout.surfaces.clusterapi.wire import ORIGINAL


def event(regarding: Key, reason: str, note: str, *, warning: bool = False) -> Tell:
    """Return an event under the original's reporter name."""
    return Tell(regarding, reason, reason, note, ORIGINAL, warning=warning, core=True)
