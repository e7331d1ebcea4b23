"""What a shell completes, asked as a shell asks it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.build.served import HAULOUT, Served
from tests.build.workloads import node


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("completion")) as made:
        made.make(node("rack-a"), node("rack-b"), node("other"))
        yield made


@pytest.mark.parametrize(
    "line", ["haulout lint conf", "haulout status --config conf", "haulout drain --kubeconfig conf"]
)
def test_names_of_files_are_left_to_the_shell(served: Served, line: str) -> None:
    assert completed(served, line) == ["file,conf"]


def completed(served: Served, line: str, folder: Path | None = None, **variables: str) -> list[str]:
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_HAULOUT_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [str(HAULOUT)],
        env={**served.environment(), **asked, **variables},
        cwd=folder or served.folder,
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return [each.removeprefix("plain,") for each in done.stdout.split()]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("haulout explain rack", ["rack-a", "rack-b"]),
        ("haulout drain node/o", ["node/other"]),
        ("haulout history rack-b", ["rack-b"]),
        ("haulout explain node other", ["other"]),
        ("haulout crds not", ["notify"]),
        ("haulout as node", ["node-maintenance-operator", "nodewright-operator", "nodewright"]),
        ("haulout status --context haul", ["haulout-embedded"]),
        ("haulout hist", ["history"]),
        ("haulout run --surfaces profiles,no", ["profiles,nodemaintenance", "profiles,notify"]),
        ("haulout plan --maintain rack", ["rack-a", "rack-b"]),
    ],
)
def test_names_are_completed(served: Served, line: str, wanted: list[str]) -> None:
    assert completed(served, line) == wanted


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("explain", "rack"), ["rack-a", "rack-b", ":4"]),
        (("hist",), ["history\tShow what happened to nodes.", ":4"]),
        (("wait", "node/other", "--for", "ret"), ["returned", ":4"]),
    ],
)
def test_kubectl_completes_the_words_of_the_plugin(
    served: Served, tmp_path: Path, words: tuple[str, ...], wanted: list[str]
) -> None:
    program = tmp_path / "kubectl_complete-haulout"
    program.symlink_to(HAULOUT)
    done = subprocess.run(
        [str(program), *words], env=served.environment(), text=True, capture_output=True, check=True, timeout=60
    )
    assert (done.stdout.splitlines(), done.stderr) == (wanted, "")


def test_a_cluster_that_cannot_be_read_completes_to_nothing(served: Served, tmp_path: Path) -> None:
    assert completed(served, "haulout explain rack", KUBECONFIG=str(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        pytest.param("haulout explain rack", ["rack-a", "rack-b"], id="a command of the operator's cluster"),
        pytest.param("haulout status --context haul", ["haulout-embedded"], id="contexts of that kubeconfig"),
        pytest.param("haulout drain rack", [], id="a command that goes where kubectl goes"),
    ],
)
def test_the_kubeconfig_of_the_settings_counts_where_the_command_uses_it(
    served: Served, tmp_path: Path, line: str, wanted: list[str]
) -> None:
    (tmp_path / "haulout.yaml").write_text(f"kubeconfig: {served.environment()['KUBECONFIG']}\n")
    assert completed(served, line, tmp_path, KUBECONFIG=str(tmp_path / "none")) == wanted
