"""Which cluster commands ask: that of a flag, of the environment, of haulout.yaml, or kubectl's, in this order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from haulout.embedded import Json
from tests.build.served import Served
from tests.build.workloads import node

NOWHERE = "nowhere"
SETTINGS: Json = {"surfaces": {"nodemaintenance": {}}}
ASKING = (
    ("status",),
    ("explain", "a"),
    ("wait", "node/a", "--for", "returned"),
    ("history", "a"),
    ("bundle", "a"),
    ("plan", "--days", "1"),
)


def settings(folder: Path, **more: str) -> None:
    (folder / "haulout.yaml").write_text(yaml.safe_dump({**SETTINGS, **more}))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, KUBECONFIG=NOWHERE) as made:
        made.make(node("a"))
        made.has_leader()
        yield made


@pytest.mark.parametrize("words", ASKING, ids=lambda words: words[0])
def test_commands_that_only_read_ask_the_cluster_of_the_settings(served: Served, words: tuple[str, ...]) -> None:
    settings(served.folder, kubeconfig="kubeconfig")
    done = served.run(*words)
    assert (done.returncode, done.stderr) == (
        0,
        "note: kubeconfig, which the settings name, is used instead of KUBECONFIG\n",
    )


@pytest.mark.parametrize("words", ASKING, ids=lambda words: words[0])
def test_a_flag_wins_over_the_settings_and_their_context(served: Served, words: tuple[str, ...]) -> None:
    settings(served.folder, kubeconfig=NOWHERE, context="of-another-file")
    done = served.run(*words, "--kubeconfig", "kubeconfig")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_environment_wins_over_the_file(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(served.folder, kubeconfig=NOWHERE)
    monkeypatch.setattr(
        served, "environment", lambda: {**Served.environment(served), "HAULOUT_KUBECONFIG": "kubeconfig"}
    )
    assert served.run("status").returncode == 0


def test_the_context_of_the_settings_is_used(served: Served) -> None:
    settings(served.folder, kubeconfig="kubeconfig", context="ghost")
    done = served.run("status")
    assert done.returncode == 1
    assert "ghost" in done.stderr


@pytest.mark.parametrize("words", [("drain", "a"), ("uncordon", "a")], ids=lambda words: words[0])
def test_what_acts_on_nodes_goes_where_kubectl_goes(served: Served, words: tuple[str, ...]) -> None:
    settings(served.folder, kubeconfig="kubeconfig")
    done = served.run(*words)
    assert done.returncode != 0
    assert NOWHERE in done.stderr


def test_a_settings_file_that_cannot_be_read_is_told_by_its_reader(served: Served) -> None:
    (served.folder / "haulout.yaml").write_text("kubeconfig: [\n")
    done = served.run("status", "--kubeconfig", "kubeconfig")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: haulout.yaml:")
