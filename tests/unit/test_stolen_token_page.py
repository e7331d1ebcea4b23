"""docs/security.md says of each attempt of a thief what the test on the real API server has found."""

from __future__ import annotations

from pathlib import Path

from tests.build.thefts import allowed_rows, denied_words

PAGE = Path("docs/security.md").read_text()


def test_the_page_has_what_some_tokens_allow() -> None:
    assert "\n".join(allowed_rows()) in PAGE


def test_the_page_has_what_no_token_allows() -> None:
    assert denied_words() in " ".join(PAGE.split())
