"""For all tests: the same examples in every run, so that what fails once fails again."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("haulout", derandomize=True, deadline=None, database=None)
settings.load_profile("haulout")
