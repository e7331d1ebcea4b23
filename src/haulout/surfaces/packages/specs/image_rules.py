"""Which images of packages the administrator's settings do not allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from haulout.base import image
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.bodies import image_of
from haulout.surfaces.packages.wire import Package

NOT_BELOW = "is below no prefix of the setting allowedImagePrefixes"
NOT_PINNED = "has no digest (sha256: and 64 hexadecimal digits), which the setting requireContainerSHA asks for"
OVERRIDDEN = "agentImageOverride is set, which the setting forbidAgentImageOverride does not allow"


def images_problem(packages: Iterable[Package], options: Options) -> str:
    """Return the first problem of any package's images; empty if all of them are allowed."""
    ordered = sorted(packages, key=lambda package: package.name)
    return next((problem for package in ordered if (problem := package_problem(package, options))), "")


def package_problem(package: Package, options: Options) -> str:
    """Return what the settings do not allow of the images of a package's pods; empty if they allow everything.

    The agent's image is the administrator's own choice, unless the package overrides it.
    """
    problem = next(_problems(package, options), "")
    return f'package "{package.name}": {problem}' if problem else ""


def _problems(package: Package, options: Options) -> Iterator[str]:
    override = package.agent_image_override
    if override and options.forbid_agent_image_override:
        yield OVERRIDDEN
    for field, text in (("image", image_of(package)), *((("agentImageOverride", override),) if override else ())):
        named = f"{field} {text[: image.LONGEST]}"
        prefixes = options.allowed_image_prefixes
        if prefixes and not any(image.is_below(text, prefix) for prefix in prefixes):
            yield f"{named} {NOT_BELOW}"
        if options.require_container_sha and not image.is_pinned(text):
            yield f"{named} {NOT_PINNED}"
