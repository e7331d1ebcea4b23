"""The reference of the originals' command lines: flags and variables of the environment that `haulout as` accepts."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cli.original import flags_of
from haulout.core.setting import describe
from haulout.core.surface import Flag, Original, Surface
from haulout.surfaces.registry import originals, surface
from tools.reference.table import code, shown, table


def lines() -> Iterator[str]:
    yield "# Flags of the originals"
    yield ""
    yield "What `haulout as NAME`, or `NAME` as a link to `haulout`, accepts. Made by `python -m tools.reference` from what the"
    yield "surfaces declare. The column `haulout.yaml` names the setting that says the same for `haulout run`."
    yield ""
    for name, owner in originals().items():
        declared = surface(owner)
        original = declared.original
        assert original is not None
        yield f"## {code(name)}"
        yield ""
        yield f"It serves the surface `{owner}`; its Lease is `{original.lease}`."
        yield ""
        yield from _flags(declared, original)
        yield from _variables(declared, original)


def _flags(declared: Surface, original: Original) -> Iterator[str]:
    if original.starts:
        yield "It has no flags."
        yield ""
        return
    flags = sorted(flags_of(declared), key=lambda flag: flag.name)
    yield from table(
        ("Flag", "Value", "Default", "`haulout.yaml`", "Meaning"), [_row(flag, declared) for flag in flags]
    )


def _row(flag: Flag, declared: Surface) -> tuple[str, ...]:
    value = "" if flag.is_bool else flag.word
    return code(f"--{flag.name}"), value, shown(flag.default), code(_setting(flag.sets, declared)), flag.help


def _setting(path: str, declared: Surface) -> str:
    """Return the path in `haulout.yaml` of the surface's setting that a flag sets; empty for any other flag."""
    assert declared.settings is not None
    first, _, rest = path.partition(".")
    names = {".".join(each.path): each.name for each in describe(declared.settings)}
    if first != "surface":
        return ""
    return ".".join(("surfaces", declared.name, *rest.split(".")[:-1], names[rest]))


def _variables(declared: Surface, original: Original) -> Iterator[str]:
    rows = [(code(name), "", f"as {_flag(original, path)}") for name, path in sorted(original.environment.items())]
    rows += [(code(each.name), shown(each.default), each.help) for each in original.variables]
    if original.starts and declared.settings is not None:
        own = [each for each in describe(declared.settings) if len(each.path) == 1 and each.name != "lease"]
        rows += [(code(each.path[0].upper()), shown(each.default), each.setting.help) for each in own]
    if rows:
        yield from table(("Variable", "Default", "Meaning"), sorted(rows))


def _flag(original: Original, path: str) -> str:
    """Return the flag that sets the same field as a variable, or else the name of the setting."""
    names = [f"--{flag.name}" for flag in original.flags if flag.sets == path]
    return code(names[0] if names else path.removeprefix("surface."))
