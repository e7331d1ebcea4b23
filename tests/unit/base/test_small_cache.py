"""A cache that keeps small values alone."""

from __future__ import annotations

from haulout.base.small_cache import small_cache


def test_only_small_arguments_are_remembered() -> None:
    calls: list[str] = []

    @small_cache(10, lambda text: len(text) < 3)
    def length(text: str) -> int:
        calls.append(text)
        return len(text)

    assert [length("ab"), length("ab"), length("abc"), length("abc")] == [2, 2, 3, 3]
    assert calls == ["ab", "abc", "abc"]
