"""URLs in messages do not show their secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.base.url import without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("up", "up"),
        ("http://prometheus:9090/x?query=up", "http://prometheus:9090/x?query=up"),
        ("http://u:p@prom:9090/x", "http://...@prom:9090/x"),
        ("http://u:p/w?#@prom", "http://...@prom"),
        ("cannot ask http://u:p@prom/: refused", "cannot ask http://...@prom/: refused"),
        ("http://token@a and https://b:c@d", "http://...@a and https://...@d"),
        ("https://a/?api_key=k&zone=z&access_token=t#x", "https://a/?api_key=...&zone=z&access_token=...#x"),
        ("https://a/?sig=k", "https://a/?sig=..."),
        ("mail to a@b", "mail to a@b"),
        ("http://", "http://"),
    ],
)
def test_logins_and_secret_parameters_are_hidden(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


NAMES = st.text("abcXYZ019-._~", min_size=1, max_size=8)
PASSWORDS = st.text(st.characters(exclude_characters="\"'<>`", exclude_categories=("Z", "C")), min_size=1).map(
    lambda text: f"SECRET{text}SECRET"
)


@given(user=NAMES, password=PASSWORDS, host=NAMES, around=st.text(max_size=5))
def test_no_password_comes_through(user: str, password: str, host: str, around: str) -> None:
    shown = without_secrets(f"{around} http://{user}:{password}@{host}/p?token=SECRET {around}")
    assert "SECRET" not in shown.removeprefix(around).removesuffix(around)
    assert host in shown
