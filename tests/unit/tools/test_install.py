"""The installation of a checkout says how far it is."""

from __future__ import annotations

import sys

import pytest

from tools import install


def test_it_counts_every_pinned_package() -> None:
    pinned = install.ROOT / "requirements" / "dev.txt"
    assert install.packages(pinned) == sum(
        not line.startswith((" ", "#")) for line in pinned.read_text().splitlines() if line
    )


def pip(monkeypatch: pytest.MonkeyPatch, code: int, *lines: str) -> None:
    """Let another program take the place of pip: it prints these lines and ends with this code."""
    program = f"print({chr(10).join(lines)!r}); raise SystemExit({code})"
    monkeypatch.setattr(install, "PIP", (sys.executable, "-c", program))


def test_it_names_each_package_while_pip_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pip(
        monkeypatch,
        0,
        "Collecting a==1 (from -r x)",
        "  Downloading a",
        "Collecting b==2",
        "Installing collected packages: a",
    )
    assert install.main() == 0
    said = capsys.readouterr().out
    assert said.startswith("installing ")
    assert "/" in said
    assert [line.split()[1] for line in said.splitlines() if "/" in line.split()[0]] == ["a", "b"]


def test_it_shows_what_pip_says_when_it_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pip(monkeypatch, 3, "Collecting a==1", "ERROR: no network")
    assert install.main() == 3
    assert "ERROR: no network" in capsys.readouterr().err
