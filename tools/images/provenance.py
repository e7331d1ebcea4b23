"""Where an image comes from, as an in-toto statement with SLSA provenance: the commit and every package, by digest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.images.bill import Component, components
from tools.images.layout import Built, encoded
from tools.images.trees import Trees

Json = dict[str, Any]

STATEMENT, PREDICATE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
# The page that says how these images are built, by which the build type is known.
PAGE = "https://haulout.dev/releasing/"


def write(output: Path, image: Built, trees: Trees) -> None:
    """Write the statement of an image beside its layout. `tools.release.signing` signs it."""
    content = statement(image, components(image, trees), trees.source.commit, trees.source.epoch)
    (output / f"{image.image.name}.provenance.json").write_bytes(encoded(content))


def statement(image: Built, parts: list[Component], commit: str, epoch: int) -> Json:
    """Return the statement. It names nothing that differs between two builds of a commit, so that anyone can make it again."""
    source = {"uri": "git+https://haulout.dev/haulout.git", "digest": {"gitCommit": commit}}
    packages = [{"uri": each.purl, "digest": {each.algorithm.lower(): each.digest}} for each in parts]
    return {
        "_type": STATEMENT,
        "subject": [{"name": f"haulout-{image.image.name}", "digest": {"sha256": image.digest.partition(":")[2]}}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": f"{PAGE}#images",
                "externalParameters": {"image": image.image.name},
                "internalParameters": {"sourceDateEpoch": epoch},
                "resolvedDependencies": [source, *packages],
            },
            "runDetails": {"builder": {"id": f"{PAGE}#images"}},
        },
    }
