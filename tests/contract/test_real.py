"""Each case on a real API server: it answers as recorded. The embedded cluster is compared with the same records."""

from __future__ import annotations

import pytest

from tests.contract.cases import CASES
from tests.contract.compare import differing, explained, failed
from tests.contract.records import REFRESH, recorded
from tests.contract.registry import Case
from tests.contract.runs import Runs


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES.values()])
def test_real_server_answers_as_recorded(case: Case, real: Runs) -> None:
    record, fresh = recorded(case), real.transcript(case)
    assert not [step for step in fresh if failed(step)], "the case does not work on the real server"
    found = differing(record, fresh)
    if found:
        pytest.fail(f"{explained(record, fresh, found, 'real')}\n{REFRESH}", pytrace=False)
