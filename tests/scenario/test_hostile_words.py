"""Every command with hostile words and files: an error is a line that says what is wrong, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from haulout.cli.root import COMMANDS

HAULOUT = Path(sys.executable).parent / "haulout"
# Served by nothing, so that every request fails at once.
NOWHERE = """
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: c, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: c}}]
"""
# Servers that run until they are ended, and what needs no file.
ENDLESS = frozenset({"cluster", "demo"})
WORDS: tuple[tuple[str, ...], ...] = (
    ("--no-such-flag",),
    ("",),
    ("node/",),
    ("\udcff\udcfe",),
    ("a" * 5000,),
    ("--config", "/nonexistent"),
    ("--config", "broken.yaml"),
    ("--config", "binary"),
    ("--config", "."),
    ("-o", "nonsense"),
    ("--timeout", "99999999999999999999h"),
)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": str(folder / "kubeconfig")}
    return subprocess.run(
        [str(HAULOUT), *words], cwd=folder, env=environment, capture_output=True, check=False, timeout=60
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kubeconfig").write_text(NOWHERE)
    (tmp_path / "broken.yaml").write_text("surfaces: [{: &a *a\n\t- ")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 100)
    return tmp_path


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_command_answers_hostile_words_with_a_traceback(name: str, folder: Path) -> None:
    for words in WORDS:
        if name in ENDLESS and words != ("--no-such-flag",):
            continue
        done = run(folder, name, *words)
        said = (done.stdout + done.stderr).decode(errors="replace")
        assert "Traceback" not in said, (words, said)
        assert "bug of haulout" not in said, (words, said)
        assert done.returncode in (0, 1, 2), (words, done.returncode)


@pytest.mark.parametrize("name", ["drain", "uncordon", "bundle", "explain", "wait"])
def test_an_empty_name_is_refused_and_a_prefix_is_not(name: str, folder: Path) -> None:
    more = ("--for", "returned") if name == "wait" else ()
    empty = run(folder, name, "", *more)
    assert empty.returncode == 2
    assert b"empty" in empty.stderr
    wrong = run(folder, name, "pod/a", *more)
    assert wrong.returncode == 2
    prefixed = run(folder, name, "node/a", *more)
    # The name was understood: what fails is the connection.
    assert prefixed.returncode == 1, prefixed.stderr


def test_a_command_that_is_none_names_the_one_that_was_meant(folder: Path) -> None:
    done = run(folder, "explian", "a")
    assert done.returncode == 2
    assert b"Did you mean 'explain'?" in done.stderr
    assert b"Commands:" in run(folder, "help").stdout
    assert b"--pod-selector" in run(folder, "help", "drain").stdout


def test_output_that_is_not_read_to_its_end_is_no_error_to_look_at(folder: Path) -> None:
    with subprocess.Popen(
        [str(HAULOUT), "manifests"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_an_interruption_ends_with_130_and_one_line(folder: Path) -> None:
    # An address that swallows everything: the command waits for an answer.
    config = NOWHERE.replace("127.0.0.1:1", "192.0.2.1:443")
    (folder / "kubeconfig").write_text(config)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": str(folder / "kubeconfig")}
    with subprocess.Popen(
        [str(HAULOUT), "explain", "a"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(1)
            process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert "Traceback" not in said
        assert process.returncode in (130, 1)
