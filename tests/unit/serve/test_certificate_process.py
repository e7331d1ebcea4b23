"""Certificates that another process makes and checks, and what happens without that process."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from haulout.serve.bundle import Bundle, FormName, Unusable
from haulout.serve.certificate_process import in_child
from haulout.serve.tls import Pair, ServerIdentity

OWN = FormName("haulout.serve.secret_form:OwnForm")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = ("a.test",)


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_a_form_makes_stores_and_reads_certificates_there() -> None:
    async with in_child() as library:
        bundle = await library.ask(OWN, "make", NAMES, NOW)
        assert isinstance(bundle, Bundle)
        assert bundle.served_until() == NOW + timedelta(days=90)
        assert await library.ask(OWN, "read", await library.ask(OWN, "fields", bundle)) == bundle
        assert await library.call(
            "haulout.serve.certificates:signers_of", bundle.serving.certificate, bundle.authorities
        )
    assert ServerIdentity().use(bundle.serving)


async def test_what_it_cannot_use_is_said_as_in_this_process() -> None:
    async with in_child() as library:
        with pytest.raises(Unusable, match="KeyError"):
            await library.ask(OWN, "read", {"data": {}})
        with pytest.raises(ValueError, match="unknown"):
            await library.call("haulout.serve.certificates:unknown")
        assert isinstance(await library.ask(OWN, "make", NAMES, NOW), Bundle)


@pytest.mark.parametrize("program", ["/bin/true", "/nowhere"])
async def test_without_another_process_they_are_made_in_this_one(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", program)
    async with in_child() as library:
        assert isinstance(await library.ask(OWN, "make", NAMES, NOW), Bundle)
        assert isinstance(await library.call("haulout.serve.certificates:make_self_signed", NAMES, NOW), Pair)


async def test_the_process_ends_with_its_use() -> None:
    async with in_child() as library:
        child = await library.call("os:getpid")
        assert is_running(child)
    assert not is_running(child)
