"""The names of flags, for any arguments and codes: those that the original would give, as long as they fit."""

from __future__ import annotations

import base64
import hashlib

from hypothesis import given
from hypothesis import strategies as st

from haulout.agent.flags import flag_path
from haulout.agent.lines import Prefixer
from haulout.agent.package import Package, Step
from haulout.agent.record import LARGEST, FailedStep, Result, record

PACKAGE = Package("demo", "1.0.0", (), {})
FOLDER = "flags/demo/1.0.0"
codes = st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=3)


def named(arguments: list[str], returncodes: list[float]) -> str:
    one = Step("a", "a.sh", tuple(arguments), tuple(returncodes), on_host=True, idempotence=False, upgrade_step=False)
    return flag_path(PACKAGE, one)


@given(st.lists(st.text(), max_size=4), codes)
def test_a_flag_is_named_after_the_arguments_and_codes(arguments: list[str], returncodes: list[float]) -> None:
    text = f"{arguments}_{returncodes}".encode()
    wanted = f"{FOLDER}/a.sh_{base64.b64encode(text).decode()}"
    fits = all(len(part) <= 255 for part in wanted.split("/"))
    assert named(arguments, returncodes) == (
        wanted if fits else f"{FOLDER}/a.sh_sha256-{hashlib.sha256(text).hexdigest()}"
    )


VECTORS = {
    ((), (0,)): "W11fWzBd",
    (("apply",), (0,)): "WydhcHBseSddX1swXQ==",
    (("a", "b"), (0, 1)): "WydhJywgJ2InXV9bMCwgMV0=",
    (("env:FOO",), (0,)): "WydlbnY6Rk9PJ11fWzBd",
    (("it's",), (0,)): "WyJpdCdzIl1fWzBd",
    (("é",), (0,)): "WyfDqSddX1swXQ==",
    (("???>>>",), (0,)): "Wyc/Pz8+Pj4nXV9bMF0=",
}


def test_the_specified_names() -> None:
    for (arguments, returncodes), marker in VECTORS.items():
        assert named(list(arguments), list(returncodes)) == f"{FOLDER}/a.sh_{marker}"


@given(st.binary(max_size=300), st.integers(1, 20))
def test_chunks_do_not_change_the_output(data: bytes, size: int) -> None:
    from datetime import UTC, datetime

    now = datetime(2026, 1, 31, 10, tzinfo=UTC).replace(tzinfo=None)
    prefixer = Prefixer("[out]", lambda: now)
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    found = b"".join([*map(prefixer.feed, chunks), prefixer.end()]).decode()
    prefix = "[out]2026-01-31T10:00:00.000000 "
    text = data.decode(errors="replace")
    assert found == (prefix + text.replace("\n", f"\n{prefix}") if text else "")


texts = st.text(max_size=3000)


@given(texts, texts, texts, st.none() | texts)
def test_a_record_always_fits(name: str, path: str, error: str, log: str | None) -> None:
    result = Result("failed", 1, 2, FailedStep(name, path, 5), error, log)
    assert len(record("apply", name, "1.0.0", result)) <= LARGEST
