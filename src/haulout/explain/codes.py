"""The reason codes that `explain` and `status` print, with their meanings, as surfaces declare them (decision 0153)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from haulout.core.reason import Course, Meaning
from haulout.surfaces.registry import KERNEL, all_declarations, load

COURSES = {
    Course.BLOCKED: "It lasts until the cause that it names changes.",
    Course.MOVING: "No action is needed: work continues.",
    Course.QUEUED: "No action is needed: its turn comes when other objects are done.",
    Course.IDLE: "No action is needed: nothing is requested for the object.",
}


def by_surface() -> dict[str, Mapping[str, Meaning]]:
    """Return the reason codes of each surface with their meanings. The first entry has those that all surfaces share."""
    return {each.name: load(each.reasons) for each in all_declarations() if each.reasons}


def course_of(code: str) -> Course:
    """Return what happens while a reason with this code stands. A code that no surface declares blocks the object."""
    return _courses().get(code, Course.BLOCKED)


def is_failure(code: str) -> bool:
    """Whether a reason with this code says that something has failed or expired."""
    return code in _failures()


def help_of(code: str) -> str:
    """Return the page about a reason code: what it means, for which surfaces, and what happens by itself; empty if unknown."""
    tables = {name: codes[code] for name, codes in by_surface().items() if code in codes}
    if not tables:
        return ""
    parts = [code, *(f"{'all surfaces' if name == KERNEL else name}: {each.text}" for name, each in tables.items())]
    failed = " It counts as failed: `haulout status --exit-code` ends with 1." if is_failure(code) else ""
    helps = [f"What helps: {each.helps}" for each in tables.values() if each.helps]
    look = "To see what it blocks, and where: haulout status, haulout explain NODE."
    return "\n\n".join([*parts, f"{COURSES[course_of(code)]}{failed}", *helps, look])


@cache
def _failures() -> frozenset[str]:
    return frozenset(code for codes in by_surface().values() for code, meaning in codes.items() if meaning.is_failure)


@cache
def _courses() -> Mapping[str, Course]:
    # The kernel comes first and is added last: no surface changes what a shared code means.
    tables = reversed(by_surface().values())
    return {code: meaning.course for codes in tables for code, meaning in codes.items()}


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
            "| Code | Meaning | What helps |",
            "|---|---|---|",
        ]
        # A bar within a cell would end it.
        rows = ((code, codes[code].text, codes[code].helps.replace("|", "\\|")) for code in sorted(codes))
        lines += [f"| `{code}` | {text} | {helps} |" for code, text, helps in rows]
        lines.append("")
    return "\n".join(lines)
