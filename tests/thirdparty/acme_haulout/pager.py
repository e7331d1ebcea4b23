"""pager: calls the person on duty."""

from __future__ import annotations

from haulout.plugins.api import Config, Fill, Post, notifier


class Pager(Config, frozen=True, kw_only=True):
    url: str
    summary: str


@notifier("pager", Pager)
def pager(config: Pager, fill: Fill) -> Post:
    return Post(config.url, {"summary": fill(config.summary)})
