"""One server of a kind per test run; all chosen cases run on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.differences import DIFFERENCES, NOT_COMPARED
from tests.contract.embedded import embedded_site
from tests.contract.hooks import Hooks
from tests.contract.real import real_site
from tests.contract.registry import Case
from tests.contract.runs import Runs
from tests.rig.process import Scratch
from tests.rig.session import require_tools, scratch_of


@pytest.fixture(scope="session")
def scratch(request: pytest.FixtureRequest) -> Iterator[Scratch]:
    yield from scratch_of(request.session, "contract")


@pytest.fixture(scope="session")
def chosen(request: pytest.FixtureRequest) -> list[Case]:
    found = (item.callspec.params.get("case") for item in request.session.items if hasattr(item, "callspec"))
    return list({case.name: case for case in found if isinstance(case, Case)}.values())


@pytest.fixture(scope="session")
def real(scratch: Scratch, chosen: list[Case]) -> Iterator[Runs]:
    require_tools("etcd", "kube-apiserver", "kube-controller-manager")
    with Hooks() as hooks, real_site(scratch, hooks) as site, Runs(site, chosen) as runs:
        yield runs


@pytest.fixture(scope="session")
def embedded(chosen: list[Case]) -> Iterator[Runs]:
    with Hooks() as hooks, embedded_site(hooks) as site, Runs(site, chosen) as runs:
        yield runs


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not any("test_embedded.py" in report.nodeid for report in terminalreporter.getreports("passed")):
        return
    terminalreporter.section("differences on purpose between the embedded cluster and the real API server")
    for difference in DIFFERENCES:
        steps = ", ".join(map(str, difference.steps))
        terminalreporter.line(f"{difference.case}, step {steps}: {difference.reason}")
    for what, reason in NOT_COMPARED.items():
        terminalreporter.line(f"not compared: {what}: {reason}")
