"""For all tests: the same examples in every run, so that what fails once fails again."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long examples take to draw says more about the machine than about the test.
settings.register_profile(
    "haulout", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("haulout")
