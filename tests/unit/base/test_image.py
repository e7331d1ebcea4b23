"""Image references: what counts as one, below which prefix it lies, and whether a digest pins it."""

import pytest

from haulout.base import image

DIGEST = "sha256:" + "0123456789abcdef" * 4

BELOW = [
    ("registry.example.com", "registry.example.com/team/tool:1.0"),
    ("registry.example.com/team", "registry.example.com/team/tool:1.0"),
    ("registry.example.com/team", f"registry.example.com/team/a/b@{DIGEST}"),
    ("registry.example.com/team/tool", "registry.example.com/team/tool:1.0"),
    ("registry.example.com/team/tool", f"registry.example.com/team/tool:1.0@{DIGEST}"),
    ("registry.example.com:5000", "registry.example.com:5000/tool:1.0"),
    ("localhost/team", "localhost/team/tool"),
    ("busybox", "busybox:1.36"),
    ("team", "team/tool:1.0"),
]
NOT_BELOW = [
    ("registry.example.com/team", "registry.example.com/team-evil/tool:1.0"),
    ("registry.example.com/team", "registry.example.com/team.evil/tool:1.0"),
    ("registry.example.com/team", "registry.example.com/teams:1.0"),
    ("registry.example.com/team", "registry.example.com/other/team/tool:1.0"),
    ("registry.example.com/team", "evil.com/registry.example.com/team/tool:1.0"),
    ("registry.example.com", "registry.example.com.evil.com/team/tool:1.0"),
    ("registry.example.com", "registry.example.com:5000/team/tool:1.0"),
    ("registry.example.com:5000", "registry.example.com:50001/tool:1.0"),
    ("registry.example.com:5000", "registry.example.com/tool:1.0"),
    ("registry.example.com", "registry.example.com:1.0"),
    ("registry.example.com", "registry.example.com"),
    ("localhost", "localhost:1.0"),
    ("registry.example.com/team", "Registry.example.com/team/tool:1.0"),
    ("registry.example.com/team", "registry.example.com/Team/tool:1.0"),
    ("registry.example.com/team", "https://registry.example.com/team/tool:1.0"),
    ("registry.example.com/team", " registry.example.com/team/tool:1.0"),
    ("registry.example.com/team", "registry.example.com/team/../evil/tool:1.0"),
    ("registry.example.com/team", "registry.example.com/team//tool:1.0"),
    ("registry.example.com/team", "registry.example.com/team/tool:1.0\n"),
    ("registry.example.com/team", "registry.example.com/team/tool:1.0 evil.com/x"),
    ("registry.example.com/team", f"registry.example.com/team@{DIGEST}/../evil"),
    ("registry.example.com/team", f"registry.example.com/team/{'x' * 600}"),
    ("docker.io/library", "busybox:1.36"),
    ("busybox", "busybox-evil:1.36"),
    ("busybox", "busybox:5000/evil:1.36"),
    ("team", "team.evil/tool:1.0"),
]


@pytest.mark.parametrize(("prefix", "text"), BELOW)
def test_an_image_lies_below_a_prefix_of_whole_parts(prefix: str, text: str) -> None:
    assert image.is_prefix(prefix)
    assert image.is_below(text, prefix)


@pytest.mark.parametrize(("prefix", "text"), NOT_BELOW)
def test_an_image_beside_a_prefix_is_not_below_it(prefix: str, text: str) -> None:
    assert image.is_prefix(prefix)
    assert not image.is_below(text, prefix)


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "registry.example.com/", "registry.example.com/team/", "/team", "registry.example.com//team"),
        *("registry.example.com/*", "*", "https://registry.example.com", "registry.example.com/team:1.0"),
        *(
            f"registry.example.com/team@{DIGEST}",
            " registry.example.com",
            "registry.example.com\n",
            "registry.example.com/Team",
        ),
        *("registry.example.com/../team", "registry.example.com/.", "-team", "x" * 600),
    ],
)
def test_what_is_no_prefix_is_refused_as_it_is(text: str) -> None:
    assert not image.is_prefix(text)


@pytest.mark.parametrize(
    ("text", "pinned"),
    [
        (f"registry.example.com/tool@{DIGEST}", True),
        (f"registry.example.com/tool:1.0@{DIGEST}", True),
        ("registry.example.com/tool:1.0", False),
        ("registry.example.com/tool", False),
        (f"registry.example.com/tool@{DIGEST[:-1]}", False),
        (f"registry.example.com/tool@{DIGEST}0", False),
        (f"registry.example.com/tool@{DIGEST.upper()}", False),
        (f"registry.example.com/tool@{DIGEST.replace('a', 'A')}", False),
        (f"registry.example.com/tool@sha512:{'0' * 128}", False),
        (f"registry.example.com/tool@sha256:{'g' * 64}", False),
        (f"registry.example.com/tool@{DIGEST}@{DIGEST}", False),
        (f"registry.example.com/tool:{DIGEST}", False),
        (f"@{DIGEST}", False),
    ],
)
def test_only_a_whole_digest_pins_an_image(text: str, pinned: bool) -> None:
    assert image.is_pinned(text) is pinned
