"""The kubeconfig that an embedded cluster writes: it never overwrites a foreign file."""

from __future__ import annotations

from pathlib import Path

import pytest

from haulout.embedded import World


async def test_its_own_file_is_replaced_and_no_other(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    other.write_text("apiVersion: v1\nkind: Config\ncontexts: [{name: production}]\n")
    async with World().served(str(mine)):
        first = mine.read_text()
    async with World().served(str(mine)):
        assert mine.read_text() != first
    with pytest.raises(ValueError, match="was not written by an embedded cluster"):
        async with World().served(str(other)):
            pass
    assert "production" in other.read_text()
