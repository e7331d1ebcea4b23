"""The facade of the embedded cluster: its names, and what importing it loads."""

import subprocess
import sys

from haulout import embedded

_LOADED_BY_A_PLAN = """
import sys
import haulout.plan.forecast, haulout.plan.virtual
print(*sorted(name for name in sys.modules if name.startswith("haulout.embedded.face")))
"""


def test_every_name_of_the_facade_can_be_imported() -> None:
    assert {name for name in embedded.__all__ if getattr(embedded, name) is None} == set()
    assert set(embedded.__all__) <= set(vars(embedded))


def test_a_plan_loads_nothing_that_serves_requests() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED_BY_A_PLAN], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
