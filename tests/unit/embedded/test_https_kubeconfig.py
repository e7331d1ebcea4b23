"""The kubeconfig that an embedded cluster writes: it never overwrites a foreign file."""

from __future__ import annotations

from pathlib import Path

import pytest

from haulout.demo.show import demo
from haulout.embedded import World
from haulout.settings.settings import DemoSettings


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


@pytest.mark.parametrize(
    ("name", "why"),
    [("other", "exists and was not written by an embedded cluster"), ("no/such", "No such file or directory")],
)
def test_the_demo_names_the_file_that_it_cannot_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, why: str
) -> None:
    (tmp_path / "other").write_text("kind: Config\n")
    settings = DemoSettings(nodes=1, zones=1, once=True, kubeconfig=str(tmp_path / name))
    assert demo(settings, lambda made: pytest.fail("the operator is not started")) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"Error: {tmp_path / name} ")
    assert why in said
