"""The rules by which values of the configuration file become typed blocks."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from haulout.base.struct_reader import GAP, Path, StructReader, kinds
from haulout.plugins.file_lint import similar
from haulout.surfaces.notify.config_file.spans import Span, read

# Kubernetes' integers have 32 bits.
LARGEST = 2**31 - 1
DURATION = "text with a unit, as 90s or 1h30m"
# For each type, the text for a value of another type, and what would be right.
_WORDS: dict[tuple[Any, ...], tuple[str, str]] = {
    (bool,): ("not a truth value", "true or false"),
    (int,): ("not a whole number", f"digits, at most {LARGEST}"),
    (float,): ("not a number", "digits, as 0.5"),
    (str,): ("not a text", "a single value, in quotes where in doubt"),
    (int, str): ("neither a number nor a percentage", "3 or 10%"),
    (bool, str): ("neither a truth value nor a text", "true, false or a word"),
}


class Reader(StructReader):
    """A reader of typed blocks. An unknown key is a problem if the block forbids it."""

    def block(self, kind: type[Any], content: Any, path: Path) -> Any | None:
        """Return the block as far as it can be read; None if a required key is missing or wrong."""
        made = self.struct(kind, content, path)
        return None if made is GAP else made

    def check_key(self, kind: type[Any], name: str, known: Collection[str], path: Path) -> None:
        if name not in known and kind.__struct_config__.forbid_unknown_fields:
            right = similar(name, known) or f"known: {', '.join(known)}"
            self.wrong((*path, name), "there is no such key", right)

    def scalar(self, annotation: Any, value: Any, path: Path) -> Any:
        allowed = kinds(annotation)
        if isinstance(allowed[0], type) and issubclass(allowed[0], Span):
            try:
                return read(allowed[0], value)
            except ValueError as error:
                return self.wrong(path, str(error), DURATION)
        for kind in allowed:
            made = _typed(kind, value)
            if made is not GAP:
                return made
        return self.wrong(path, *_WORDS[allowed])


def _typed(kind: Any, value: Any) -> Any:
    """Return the value converted to this type, or GAP. Like in JSON, a whole number may be written as 3.0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is float and is_number:
        return float(value)
    if kind is int and is_number and value == int(value) and abs(value) <= LARGEST:
        return int(value)
    return value if kind in (bool, str) and isinstance(value, kind) else GAP
