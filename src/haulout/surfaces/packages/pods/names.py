"""The names of the objects that the operator makes for a Skyhook, a package and a node."""

from __future__ import annotations

import hashlib

# Kubernetes' limits for a name that is also a host name or a label, and for the name of any object.
LONGEST_LABEL, LONGEST_NAME = 63, 253


def safe_name(longest: int, *parts: str) -> str:
    """Return a name made of the parts, at most `longest` bytes long.

    A digest makes it differ where the parts differ.
    """
    text = "-".join(parts).replace(".", "-").encode()
    digest = hashlib.sha256(text).hexdigest()[:8]
    return f"{text[: longest - 9].decode(errors='ignore')}-{digest}".lower()


def unique_name(longest: int, *parts: str) -> str:
    """Return a name that differs wherever the parts do, also in where one part ends and the next begins.

    Names of the original are not of this form. So it is for objects that the original does not have.
    """
    digest = hashlib.sha256("/".join(parts).encode()).hexdigest()[:16]
    text = "-".join(parts).replace(".", "-").encode()
    return f"{text[: longest - 17].decode(errors='ignore')}-{digest}".lower()


def stem(*parts: str) -> str:
    """Return the text that pods and ConfigMaps are named after. Two objects with the same one may have the same name."""
    return "-".join(parts).replace(".", "-").lower()


def package_pod(skyhook: str, package: str, version: str, stage: str, node: str) -> str:
    return safe_name(LONGEST_LABEL, skyhook, package, version, stage, node)


def interrupt_pod(skyhook: str, interrupt: str, node: str, *, stage: str = "interrupt") -> str:
    """Return the name of an interrupt pod. `interrupt`: the type of interrupt as it is spelled in the Skyhook."""
    return safe_name(LONGEST_LABEL, skyhook, stage, interrupt, node)


def pull_pod(skyhook: str, node: str) -> str:
    return unique_name(LONGEST_LABEL, skyhook, "prepull", node)


def metadata_config_map(skyhook: str, node: str) -> str:
    return safe_name(LONGEST_NAME, skyhook, node, "metadata")


def metadata_volume(node: str) -> str:
    return safe_name(LONGEST_LABEL, "metadata", node)


def package_config_map(skyhook: str, package: str, version: str) -> str:
    return f"{skyhook}-{package}-{version}".lower()


def applied_config_map(skyhook: str) -> str:
    return safe_name(LONGEST_NAME, skyhook, "applied")


def package_label(package: str, version: str) -> str:
    return f"{package}-{version}"


def copy_dir(root: str, skyhook: str, identity: str, package: str, version: str) -> str:
    """Return the directory on the host into which a package is copied. `identity`: UID and generation of the Skyhook."""
    return f"{root}/{skyhook}/{package}-{version}-{identity}"


def resource_id(skyhook: str, identity: str, package: str, version: str) -> str:
    """Return the name under which the agent keeps its record of a package, for one generation of the Skyhook."""
    return f"{skyhook}-{identity}_{package}_{version}"


def identity_in(resource: str, skyhook: str, package: str, version: str) -> str:
    """Return UID and generation from a resource id; empty if it is not that of this package."""
    start, end = f"{skyhook}-", f"_{package}_{version}"
    return (
        resource.removeprefix(start).removesuffix(end) if resource.startswith(start) and resource.endswith(end) else ""
    )
