"""A cache for values that people and kubelets write: it keeps small ones alone, so that its memory is bounded, not only its length."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
TextT = TypeVar("TextT", bound=str | None)


def small_cache(most: int, is_small: Callable[..., bool]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Keep the last `most` results of a function, but only those whose arguments are small.

    An annotation may have 256 KiB and an object 1.5 MiB. A cache of a thousand of them would outlast its objects and take more
    memory than the process may have.
    """

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        cached = lru_cache(most)(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return (cached if is_small(*args, **kwargs) else function)(*args, **kwargs)  # type: ignore[arg-type]

        return call

    return decorated


def short_text_cache(most: int, longest: int) -> Callable[[Callable[[TextT], T]], Callable[[TextT], T]]:
    """Keep the last `most` results of a function of one text, but only those of texts that are not too long.

    It is the `small_cache` for functions that every decision calls: it compares by itself, without another call.
    """

    def decorated(function: Callable[[TextT], T]) -> Callable[[TextT], T]:
        cached = lru_cache(most)(function)

        @wraps(function)
        def call(text: TextT) -> T:
            return cached(text) if text is None or len(text) <= longest else function(text)

        return call

    return decorated
