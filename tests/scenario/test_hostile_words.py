"""Every command with hostile words and files: an error is a line that says what is wrong, never a traceback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

from haulout.cli.root import COMMANDS, main, root
from haulout.cli.skyhook.command import COMMANDS as SKYHOOK
from haulout.plan.command import plan
from haulout.settings.settings import PlanSettings
from haulout.surfaces.registry import originals

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
ENDLESS = frozenset({"cluster", "console", "demo"})
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


# Words for the programs of the originals. Operators run until they are ended, so that they get nothing that could start them.
AS_ORIGINAL = (
    # The operator of skyhook takes no flags, and does not look at any.
    *((("as", name), ("--no-such-flag",)) for name in originals() if name != "skyhook-operator"),
    *((("as", "skyhook", *path), words) for path in SKYHOOK for words in (("--no-such-flag",), ("",), ("\udcff",), ())),
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


NUMBERS = ("-1", "0", "1e400", "nan", "99999999999999999999", "-99999999999999999999")
TIMES = ("-5s", "0", "99999999h", "9999999999999999999999h", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "soon")


def values_of(option: click.Option) -> tuple[str, ...]:
    """Return what is hostile to an option, by what it takes. Flags and words of a list are held by click itself."""
    if option.is_flag or isinstance(option.type, click.Choice):
        return ()
    is_number = isinstance(option.type, click.types.IntParamType | click.types.FloatParamType)
    return NUMBERS if is_number else TIMES


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_option_answers_values_out_of_range_with_a_traceback(name: str, folder: Path) -> None:
    """In this process: a program for each value would take minutes. What click lets pass is carried out by those that only read."""
    command = root.get_command(click.Context(root), name)
    assert command is not None
    for option in (param for param in command.params if isinstance(param, click.Option)):
        for value in values_of(option):
            given = parsed(command, [option.opts[-1], value])
            assert isinstance(given, click.Context | click.ClickException), (option.opts, value, given)


def parsed(command: click.Command, words: list[str]) -> object:
    try:
        return command.make_context("haulout", words, resilient_parsing=False)
    except Exception as error:  # noqa: BLE001 - which one it is, the test says
        return error


PLANS = (
    *(("--days", value) for value in (*NUMBERS, "1e308", "inf", "3651")),
    *(("--at", value) for value in TIMES),
    *(("--work-for", value) for value in TIMES),
    *(("--after", f"in-maintenance={value}:a=b") for value in TIMES),
    *(("--nodes", value) for value in NUMBERS),
    *(("--zones", value) for value in NUMBERS),
)


@pytest.mark.parametrize("words", PLANS, ids=" ".join)
def test_a_plan_of_numbers_out_of_range_is_refused_or_drawn(
    words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    made = main(["plan", "--nodes", "2", "--days", "1", *words, "--svg", "plan.svg"])
    assert made == 2 or (isinstance(made, PlanSettings) and plan(made) in (0, 1))


def test_no_original_answers_hostile_words_with_a_traceback(folder: Path) -> None:
    for command, words in AS_ORIGINAL:
        done = run(folder, *command, *words)
        said = (done.stdout + done.stderr).decode(errors="replace")
        assert "Traceback" not in said, (command, words, said)
        assert "bug of haulout" not in said, (command, words, said)
        assert done.returncode in (0, 1, 2), (command, words, done.returncode)


@pytest.mark.parametrize("name", ["drain", "uncordon", "bundle", "explain", "wait", "history"])
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


def test_a_plan_takes_names_as_the_other_commands_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert main(["plan", "--maintain", ""]) == 2
    made = main(["plan", "--nodes", "2", "--days", "1", "--surfaces", "nodemaintenance", "--maintain", "node/node-1"])
    assert isinstance(made, PlanSettings)
    assert plan(made) == 0


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
    # A server that takes connections and never answers: the command waits for it.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        config = NOWHERE.replace("127.0.0.1:1", f"127.0.0.1:{silent.getsockname()[1]}")
        (folder / "kubeconfig").write_text(config)
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": str(folder / "kubeconfig")}
        with subprocess.Popen(
            [str(HAULOUT), "explain", "a"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                _, printed = process.communicate(timeout=60)
    assert printed.decode().strip() == "interrupted"
    assert process.returncode == 130
