"""Why something waits, as data: console, CLI, events and conditions print these."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key


class Reason(msgspec.Struct, frozen=True):
    """`code` is stable and documented; `text` says it to a person; `because` leads towards the root."""

    code: str
    subject: Key
    text: str = ""
    until: datetime | None = None
    because: tuple[Reason, ...] = ()


def roots(reason: Reason) -> list[Reason]:
    """The reasons at the end of every chain: what one would have to change."""
    if not reason.because:
        return [reason]
    return [root for cause in reason.because for root in roots(cause)]
