"""The options of the logbook, as its decisions and the webhook read them."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

import msgspec

NAME = "logbook"
# The configuration row with the key by which admission proves that it wrote a name. No command prints it.
KEY_NAME = "logbook-key"


class People(StrEnum):
    """How the names of users are recorded: as they are, as a hash, or not at all."""

    FULL = "full"
    HASH = "hash"
    NONE = "none"


class LogbookOptions(msgspec.Struct, frozen=True):
    """The options of the logbook.

    `keeps_for`: how long a record is kept after its end. `most`: how many closed records are kept.
    `traced`: the percentage of maintenances whose traces are exported.
    """

    people: People = People.FULL
    keeps_for: timedelta = timedelta(days=90)
    most: int = 5000
    traced: int = 0
