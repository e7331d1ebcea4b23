"""What each reason code means, as surfaces declare it. `explain`, `status` and the JSON of both print codes."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.surfaces.registry import KERNEL, declared, load


def by_surface() -> dict[str, Mapping[str, str]]:
    """Return the reason codes of each surface with their meanings; those that every surface can give come first."""
    return {each.name: load(each.reasons) for each in declared() if each.reasons}


def page() -> str:
    """Return the list of reason codes as a page of the documentation."""
    lines = [
        "# Reason codes",
        "",
        "What `explain`, `status` and their JSON print. Made by `python -m tools.reference` from what the surfaces declare.",
        "",
    ]
    for surface, codes in by_surface().items():
        lines += [
            f"## {'All surfaces' if surface == KERNEL else f'`{surface}`'}",
            "",
            "| Code | Meaning |",
            "|---|---|",
        ]
        lines += [f"| `{code}` | {text} |" for code, text in sorted(codes.items())]
        lines.append("")
    return "\n".join(lines)
