"""The order of API versions: the preferred one of a group comes first."""

from __future__ import annotations


def rank(version: str) -> tuple[int, int, int, str]:
    """Return a sort key: v2, v1, v1beta1, v1alpha2, then the rest by name (apimachinery, pkg/version)."""
    digits = version[1:].replace("alpha", " alpha ").replace("beta", " beta ").split()
    if not version.startswith("v") or not digits or not digits[0].isdecimal():
        return (3, 0, 0, version)
    stability = {(): 0, ("beta",): 1, ("alpha",): 2}.get(tuple(digits[1:2]), 3)
    minor = int(digits[2]) if len(digits) > 2 and digits[2].isdecimal() else 0
    return (stability, -int(digits[0]), -minor, "")
