"""The options of surfaces in a running process: made as for commands, and made again when settings or files change."""

from __future__ import annotations

from pathlib import Path

import pytest

from haulout.app.parts import CannotStart, Part, Surroundings
from haulout.base.clock import SystemClock
from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG
from haulout.core.declaration import Context, Declaration, OptionsProblem
from haulout.runtime.metrics import Metrics
from haulout.settings.settings import Settings
from haulout.surfaces.notify.settings import NotifySettings

# The declaration takes the name and the block of a real surface, because settings know no other.
NAME = "notify"
KEY = Key("", CONFIG, "", NAME)


def _read(settings: NotifySettings, context: Context) -> str:
    text = context.files[settings.config].decode()
    if "bad" in text:
        raise OptionsProblem([f"{settings.config}:1:1: {text}"], error=text)
    return f"{text} alone={context.alone}"


def declared(*, needs_files: bool = False, keeps_last_options: bool = False) -> Declaration:
    return Declaration(
        name=NAME,
        deciders=(),
        sources=lambda options: frozenset(),
        options=_read,
        files=lambda settings: (settings.config,),
        rows=lambda options: (Value(key=KEY, value=options),),
        needs_files=needs_files,
        keeps_last_options=keeps_last_options,
    )


def part(path: Path, declaration: Declaration) -> Part:
    settings = Settings(blocks={NAME: NotifySettings(config=str(path))})
    return Part(Surroundings(settings, Store(), Metrics(), SystemClock(), lambda: None), declaration)


def row(served: Part) -> tuple[object, str]:
    found = served.around.store.row(KEY)
    assert isinstance(found, Value)
    return found.value, found.error


def test_a_surface_without_a_part_of_its_own_is_served_by_its_declaration(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    served = part(path, declared())
    served.look()
    assert row(served) == ("one alone=False", "")
    path.write_text("two!")
    served.look()
    assert row(served) == ("two! alone=False", "")


def test_changed_settings_make_the_options_anew_with_another_file(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("one")
    second.write_text("two")
    served = part(first, declared())
    served.look()
    served.follow(Settings(blocks={NAME: NotifySettings(config=str(second))}, alone=True))
    assert row(served) == ("two alone=True", "")
    first.write_text("not read any more")
    served.look()
    assert row(served) == ("two alone=True", "")


def test_while_the_file_is_invalid_decisions_find_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("good")
    served = part(path, declared())
    served.look()
    for text in ("bad", "still bad"):
        path.write_text(text)
        served.look()
        assert row(served) == (None, f"{path}: {text}")
        assert served.options is None
    path.write_text("good again")
    served.look()
    assert row(served) == ("good again alone=False", "")


def test_or_the_last_good_options_stay_in_force_where_the_surface_declares_so(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("good")
    served = part(path, declared(needs_files=True, keeps_last_options=True))
    path.write_text("bad")
    served.look()
    path.unlink()
    served.look()
    assert row(served) == ("good alone=False", "")


@pytest.mark.parametrize("keeps_last_options", [True, False])
def test_a_surface_that_needs_its_file_starts_only_with_it_but_outlives_its_loss(
    tmp_path: Path, keeps_last_options: bool
) -> None:
    path, declaration = tmp_path / "file", declared(needs_files=True, keeps_last_options=keeps_last_options)
    with pytest.raises(CannotStart, match="No such file"):
        part(path, declaration)
    path.write_text("bad")
    with pytest.raises(CannotStart, match="bad"):
        part(path, declaration)
    path.write_text("good")
    served = part(path, declaration)
    for text in ("bad", "bad still"):
        path.write_text(text)
        served.look()
    path.write_text("good again")
    served.look()
    assert row(served) == ("good again alone=False", "")
