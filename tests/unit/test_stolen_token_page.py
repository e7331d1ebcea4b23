"""docs/security.md says of each attempt of a thief what the test on the real API server has found."""

from __future__ import annotations

from pathlib import Path

from haulout.core.rights import Right
from haulout.manifests.rights import all_roles, default_names
from tests.build.thefts import ATTEMPTS, VERBS, allowed_rows, denied_words, way_back_words

PAGE = Path("docs/security.md").read_text()


def test_the_page_has_what_some_tokens_allow() -> None:
    assert "\n".join(allowed_rows()) in PAGE


def test_the_page_has_what_no_token_allows() -> None:
    assert denied_words() in " ".join(PAGE.split())


def test_the_page_has_what_the_role_for_the_way_back_allows() -> None:
    assert way_back_words() in " ".join(PAGE.split())


def is_tried(right: Right, verb: str, resource: str) -> bool:
    names = tuple(name if name == "{each}" else name.format(**default_names()) for name in right.names)
    wanted = (verb, right.group, resource)
    return any(each.right == wanted and each.is_of(names) for each in ATTEMPTS if each.allowed)


def test_a_thief_tries_every_right_to_write_that_is_printed() -> None:
    """A new right fails until it is tried, and so until the page says that a token has it."""
    untried = {
        f"{role.name}: {verb} {resource}.{right.group} {' '.join(right.names)}"
        for role in all_roles()
        for right in role.rights
        for resource in right.resources
        for verb in right.verbs
        if role.bound and verb in VERBS.values() and not is_tried(right, verb, resource)
    }
    assert untried == set()
