"""Settings of all tests: the same examples in every run, and a check that metrics have their declared labels."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.build.metric_labels import watch_labels

# A shell that starts a job in the background lets it ignore interrupts, and its children with it. Some tests interrupt commands.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The time that examples take to draw depends more on the machine than on the test.
settings.register_profile(
    "haulout", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("haulout")

UNDECLARED = watch_labels()


@pytest.fixture(autouse=True)
def _metrics_have_their_declared_labels() -> Iterator[None]:
    yield
    found = sorted(UNDECLARED)
    UNDECLARED.clear()
    assert found == [], "metrics whose labels differ from their declaration"
