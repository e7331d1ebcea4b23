"""What the reason codes of ESX maintenance mean."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "esx": "The ESX host under the node is in maintenance or has an alarm.",
}
