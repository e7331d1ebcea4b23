"""What the reason codes of Beacons mean."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Course, Meaning

DARK, WARMING = "beacon-dark", "beacon-warming"
REASONS: Mapping[str, Meaning] = {
    DARK: Meaning("There is no node for the Beacon to light."),
    WARMING: Meaning("The lamp of the Beacon warms up.", Course.MOVING),
}
