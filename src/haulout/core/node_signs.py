"""Recognizes on a Node the signs (labels, taints, annotations) by which surfaces show that they claim it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from haulout.core.surface import NodeSign


def shows_sign(
    signs: Iterable[NodeSign], labels: Mapping[str, str], taints: Iterable[str], annotations: Mapping[str, str]
) -> bool:
    """Whether a Node shows one of the signs. `taints`: the keys of its taints."""
    keys = tuple(taints)
    return any(visible_signs(sign, labels, keys, annotations) for sign in signs)


def visible_signs(
    sign: NodeSign, labels: Mapping[str, str], taints: Iterable[str], annotations: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return each label, taint or annotation by which a Node shows the sign, with the text that explains it."""
    if sign.label:
        return [(f"label {sign.label}={sign.value}", sign.text)] if labels.get(sign.label) == sign.value else []
    if sign.taint:
        return [(f"taint {sign.taint}", sign.text)] if sign.taint in taints else []
    if not sign.is_prefix:
        return [(f"annotation {sign.annotation}", sign.text)] if sign.annotation in annotations else []
    names = [name for name in annotations if name.startswith(sign.annotation)]
    return [(f"annotation {name}", sign.text.format(name.removeprefix(sign.annotation))) for name in names]
