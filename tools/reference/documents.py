"""The reference page of the JSON documents that commands print."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cli.schema import DOCUMENTS


def lines() -> Iterator[str]:
    yield "# JSON documents"
    yield ""
    yield "What commands print with `-o json`. `haulout schema NAME` prints the same schemas."
    yield ""
    yield "| Command | JSON schema (2020-12) |"
    yield "|---|---|"
    for name in DOCUMENTS:
        yield f"| `haulout {name} -o json` | [{name}.schema.json]({name}.schema.json) |"
    yield ""
    yield "The codes of reasons are in [Reasons](reasons.md)."
