"""Makes the settings of a process from the flags, environment and defaults of an original, as its surface declares them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import click
import msgspec

from haulout.base.duration import to_text
from haulout.cli.goflags import FlagProblem, with_flags
from haulout.cli.zap import log_settings, zap_flags
from haulout.core.setting import Described, describe, make_struct
from haulout.core.surface import Flag, Original, Surface
from haulout.settings.settings import Lease, PodRules, Settings, Webhooks
from haulout.surfaces.registry import load

SURFACE = "surface"
# The fields of `Settings` that are structs, each with its value before an original sets anything.
PARTS = {"webhooks": Webhooks(), "pod_rules": PodRules()}


def start(surface: Surface, words: Sequence[str]) -> int | Settings:
    """Return the settings from an original's command line. If it asks for another command, run that: return its exit code."""
    original = surface.original
    assert original is not None
    if words and words[0] in original.commands:
        done: int = load(original.commands[words[0]])(words[1:])
        return done
    if original.starts:
        made: int | Settings = load(original.starts)(words)
        return made
    return with_flags(
        original.program or original.name, flags_of(surface), words, lambda values: _settings(surface, original, values)
    )


def flags_of(surface: Surface) -> tuple[Flag, ...]:
    """Return all flags of a surface's original: its own, those for logging, and one for each setting that has one."""
    original = surface.original
    assert original is not None
    return (*original.flags, *zap_flags(original.log_times), *_setting_flags(surface, original))


def _setting_flags(surface: Surface, original: Original) -> Iterator[Flag]:
    assert surface.settings is not None
    for each in describe(surface.settings):
        if each.setting.has_flag and each.setting.help:
            name, path = each.setting.flag or each.path[-1].replace("_", "-"), ".".join(each.path)
            default = original.settings.get(path, each.default)
            text = ",".join(default) if isinstance(default, tuple) else default
            yield Flag(name, text, each.setting.help, _word(each.kind), f"{SURFACE}.{path}")


def _word(kind: Any) -> str:
    return {int: "int", timedelta: "duration"}.get(kind, "string")


def _settings(surface: Surface, original: Original, values: Mapping[str, Any]) -> int | Settings:
    logs = log_settings(values)
    flags = {flag.name: flag for flag in flags_of(surface)}
    chosen = {flags[name].sets: _written(flags[name], value) for name, value in values.items() if flags[name].sets}
    try:
        chosen |= _from_environment(original, chosen)
        block = _block(surface, original, chosen)
    except _Refused as refused:
        click.echo(str(refused), err=True)
        return 1
    fields = {**original.fixed, **chosen}
    plain = {name: value for name, value in fields.items() if "." not in name and name != "elect"}
    for name, part in PARTS.items():
        plain[name] = msgspec.structs.replace(part, **_inner(fields, name))
    lease = Lease(original.lease, **_inner(fields, "lease"))
    return Settings(
        **{"turns": False, "alone": True, **plain, **logs},
        lease=lease if fields["elect"] else None,
        blocks={surface.name: block},
    )


def _written(flag: Flag, value: Any) -> Any:
    return flag.form.format(value) if flag.form else value


class _Refused(Exception):
    """An environment variable has a value with which the original would not start."""


def _from_environment(original: Original, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that environment variables set. A flag wins over a variable."""
    found: dict[str, Any] = {}
    for variable, field in original.environment.items():
        text = os.environ.get(variable)
        if text is None or chosen.get(field):
            continue
        if not text and field.startswith(SURFACE):
            raise _Refused(f"{variable} is set, but empty: give it a value or unset it")
        found[field] = text
    return found


def _block(surface: Surface, original: Original, chosen: Mapping[str, Any]) -> msgspec.Struct:
    assert surface.settings is not None
    values = {**original.settings, **_inner(chosen, SURFACE)}
    known = {".".join(each.path): each for each in describe(surface.settings)}
    checked = {path: _checked(known[path], value) for path, value in values.items()}
    return make_struct(surface.settings, checked)


def _checked(each: Described, value: Any) -> Any:
    if not isinstance(each.default, tuple):
        _check(each, value)
        return value
    entries = value if isinstance(value, tuple) else tuple(part.strip() for part in value.split(",") if part.strip())
    for entry in entries:
        _check(each, entry)
    return entries


def _check(each: Described, value: Any) -> None:
    setting = each.setting
    flag = setting.flag or each.path[-1].replace("_", "-")
    text = to_text(value) if isinstance(value, timedelta) else value
    if setting.words and value not in setting.words:
        raise FlagProblem(f'invalid value "{text}" for flag -{flag}: one of {", ".join(setting.words)}')
    try:
        if setting.check is not None:
            setting.check(value)
    except ValueError as error:
        raise FlagProblem(f'invalid value "{text}" for flag -{flag}: {error} ({setting.right})') from None


def _inner(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the fields whose path begins with `NAME.`, by the rest of their path."""
    return {path.removeprefix(f"{name}."): value for path, value in fields.items() if path.startswith(f"{name}.")}
