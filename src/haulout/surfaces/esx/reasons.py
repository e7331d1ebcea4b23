"""What the reason codes of ESX maintenance mean."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Meaning

REASONS: Mapping[str, Meaning] = {
    "esx": Meaning("The ESX host under the node is in maintenance or has an alarm."),
}
