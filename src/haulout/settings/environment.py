"""The environment variables of settings: which variable sets which path of `haulout.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from haulout.core.setting import split
from haulout.settings.blocks import File, item_type, struct_in

ENVIRONMENT_PREFIX = "HAULOUT_"


@cache
def environment_names() -> dict[str, tuple[str, ...]]:
    """Return the path of each setting, by the name of its environment variable."""
    return dict(_paths(File, ()))


def _paths(kind: type[Any], path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for field in msgspec.structs.fields(kind):
        inner = (*path, field.encode_name)
        annotated, _ = split(field.type)
        struct = struct_in(annotated)
        if item_type(annotated) is None and struct is not None:
            yield from _paths(struct, inner)
        else:
            yield ENVIRONMENT_PREFIX + "__".join(_upper_snake(part) for part in inner), inner


def _upper_snake(name: str) -> str:
    """Return a camelCase name as in a variable: HONOR_CLUSTER_API_LABEL for `honorClusterAPILabel`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).upper()
