"""Plugins of another package, which is installed as any other and used by the program as if they were its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from haulout.embedded import NODES
from tests.build.served import PATIENCE, Served
from tests.build.workloads import node
from tests.rig.receiver import Receiver

PACKAGE = Path(__file__).parents[1] / "thirdparty"
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
# Without a network: the build backend is the one that built Haulout itself.
OFFLINE = ("--no-index", "--no-build-isolation", "--no-deps")
STATE = "cloud.sap/maintenance-state"
QUIET = ("--metrics-addr=0", "--health-addr=0", "--metrics-timeout=0s")


def config(url: str) -> str:
    return f"""
intervals: {{requeue: 30s}}
instances:
  check:
  - {{type: hasTaint, name: worn, config: {{key: acme.test/worn}}}}
  trigger:
  - {{type: countUp, name: again, config: {{key: acme.test/times}}}}
  notify:
  - type: pager
    name: call
    config: {{url: "{url}/pager", summary: "{{{{ .Node.Name }}}} is {{{{ .State }}}}"}}
    schedule: {{type: periodic, config: {{interval: 1h}}}}
profiles:
- name: acme
  operational: {{transitions: [{{check: worn, next: maintenance-required}}]}}
  maintenance-required: {{notify: call, transitions: [{{check: "!worn", trigger: again, next: operational}}]}}
"""


def shift_config(url: str) -> str:
    return f"""
intervals: {{requeue: 100ms}}
instances:
  check:
  - {{type: shiftOpen, name: shift, config: {{url: "{url}/shift"}}}}
profiles:
- name: acme
  operational: {{transitions: [{{check: shift, next: maintenance-required}}]}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip has installed the package, with nothing else in it."""
    made = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, *PIP, "install", *OFFLINE, "--target", made, PACKAGE], check=True, timeout=120)
    return made


@pytest.fixture
def served(site: Path, tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, PYTHONPATH=str(site)) as made:
        yield made


def label(served: Served, name: str) -> str | None:
    value: str | None = served.node("a")["metadata"]["labels"].get(name)
    return value


def test_they_are_described_with_ours(served: Served) -> None:
    done = served.run("plugins")
    assert (done.returncode, done.stderr) == (0, "")
    for name, says in {
        "hasTaint": "Passes while the node has a taint with this key.",
        "shiftOpen": "Passes while Acme's shift calendar says that a shift is open.",
        "countUp": "Adds one to the number that is kept in a label.",
        "pager": "Calls the person on duty.",
        "hasLabel": "Passes while the node has a label",
    }.items():
        assert f"### {name}\n\n{says}" in done.stdout


def test_their_settings_are_checked_like_ours(served: Served) -> None:
    path = served.folder / "maintenance.yaml"
    path.write_text(config("http://pager.test"))
    done = served.run("lint", str(path))
    assert (done.returncode, done.stdout) == (0, "")
    path.write_text(config("http://pager.test").replace("{key: acme.test/worn}", "{kee: acme.test/worn}"))
    done = served.run("lint", str(path))
    assert done.returncode == 1
    assert "maintenance.yaml:5:" in done.stdout
    assert "string value is not set" in done.stdout


def test_a_check_without_words_of_its_own_is_explained_by_its_name(served: Served) -> None:
    (served.folder / "maintenance.yaml").write_text(config("http://pager.test"))
    served.make(node("a", **{"cloud.sap/maintenance-profile": "acme"}))  # type: ignore[arg-type]
    done = served.run("explain", "a", "--config", "maintenance.yaml")
    assert "      worn does not pass (taints: [])\n" in done.stdout


def test_without_the_package_they_are_unknown(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        path = tmp_path / "maintenance.yaml"
        path.write_text(config("http://pager.test"))
        done = served.run("lint", str(path))
    assert done.returncode == 1
    assert 'plugin type "hasTaint" is not known' in done.stdout


def test_the_operator_judges_acts_and_calls_by_them(served: Served) -> None:
    receiver = Receiver()
    (served.folder / "config").mkdir()
    served.make(node("a", **{"cloud.sap/maintenance-profile": "acme", "acme.test/times": "3"}))  # type: ignore[arg-type]

    with receiver.open() as url:
        (served.folder / "config" / "maintenance.yaml").write_text(config(url))
        operator = served.start("as", "maintenance-controller", *QUIET)
        try:
            served.until(lambda: label(served, STATE) == "operational")
            served.change(NODES, "a", {"spec": {"taints": [{"key": "acme.test/worn", "effect": "NoSchedule"}]}})
            served.until(lambda: bool(receiver.got))
            assert label(served, STATE) == "maintenance-required"
            served.change(NODES, "a", {"spec": {"taints": []}})
            served.until(lambda: label(served, STATE) == "operational")
        finally:
            operator.send_signal(signal.SIGTERM)
            operator.communicate(timeout=PATIENCE)
    assert label(served, "acme.test/times") == "4"
    assert receiver.got == [("/pager", {"summary": "a is maintenance-required"})]
    assert json.loads(served.node("a")["metadata"]["annotations"]["cloud.sap/maintenance-data"])["Notifications"]


def test_the_operator_asks_the_outside_world_by_the_probe_of_their_check(served: Served) -> None:
    receiver = Receiver()
    (served.folder / "config").mkdir()
    served.make(node("a", **{"cloud.sap/maintenance-profile": "acme"}))  # type: ignore[arg-type]
    with receiver.open() as url:
        (served.folder / "config" / "maintenance.yaml").write_text(shift_config(url))
        operator = served.start("as", "maintenance-controller", *QUIET)
        try:
            served.until(lambda: len(receiver.read) > 2 and label(served, STATE) == "operational")
            receiver.pages["/shift"] = "closed"
            seen = len(receiver.read)
            served.until(lambda: len(receiver.read) > seen + 2)
            assert label(served, STATE) == "operational"
            receiver.pages["/shift"] = "open"
            served.until(lambda: label(served, STATE) == "maintenance-required")
        finally:
            operator.send_signal(signal.SIGTERM)
            log = "".join(filter(None, operator.communicate(timeout=PATIENCE)))
    assert "the shift calendar answered with HTTP 404" in log
