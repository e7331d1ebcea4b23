"""References of container images: whether a text is one, below which prefix it lies, and whether a digest pins it.

Texts are compared as they are. Nothing is filled in (`docker.io`), changed to lower case or resolved.
"""

from __future__ import annotations

import re

LONGEST = 512
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_REPOSITORY = rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*"
_REFERENCE = re.compile(
    rf"(?P<repository>{_REPOSITORY})(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]{32,}))?"
)
_PREFIX = re.compile(rf"{_HOST}|{_REPOSITORY}")
_SHA256 = re.compile(r"sha256:[0-9a-f]{64}")


def is_prefix(text: str) -> bool:
    """Whether a text is a registry or the beginning of a repository's name, such as `registry.example.com/team`."""
    return len(text) <= LONGEST and _PREFIX.fullmatch(text) is not None


def is_below(image: str, prefix: str) -> bool:
    """Whether an image is the repository that the prefix names, or one below it. Only whole parts of names count."""
    found = _parsed(image)
    if found is None:
        return False
    repository = found["repository"]
    # An image without a slash is one of the default registry, also if its name looks like a host.
    return repository.startswith(f"{prefix}/") or (repository == prefix and not _is_host(prefix))


def is_pinned(image: str) -> bool:
    """Whether an image has a digest: `sha256:` and 64 hexadecimal digits in lower case."""
    found = _parsed(image)
    return found is not None and _SHA256.fullmatch(found["digest"] or "") is not None


def _parsed(image: str) -> re.Match[str] | None:
    return _REFERENCE.fullmatch(image) if len(image) <= LONGEST else None


def _is_host(prefix: str) -> bool:
    return "/" not in prefix and ("." in prefix or ":" in prefix or prefix == "localhost")
