"""Bills of materials: the packages of an image with their licenses, in the formats of SPDX and CycloneDX."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import urllib.parse
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from haulout import __version__
from tools.images.layout import Built, encoded
from tools.images.licenses import DEBIAN, license_of, refused
from tools.images.spec import AGENT
from tools.images.trees import ROOT, Trees

Json = dict[str, Any]

# The parts of the console's page, which is built into the package from these sources.
WEB_LOCK = ROOT / "web" / "package-lock.json"
NAMESPACE = "https://spdx.org/spdxdocs"
PUBLIC_DOMAIN = (
    "The authors have placed these files in the public domain; see /usr/share/doc/liblzma5/copyright in the image."
)


@dataclasses.dataclass(frozen=True)
class Component:
    """A package in an image. `purl`: its name as scanners look it up. `algorithm`, `digest`: of the file that it came in."""

    name: str
    version: str
    purl: str
    license: str
    algorithm: str
    digest: str


def components(image: Built, trees: Trees) -> list[Component]:
    """Return what an image is made of. A license that is not allowed is an error."""
    found = [*debian_components(image, trees), haulout(trees)]
    if image.image.name != AGENT:
        found += [*python_components(trees), *page_components()]
    wrong = [f"{each.name} {each.version}: {part}" for each in found for part in refused(each.name, each.license)]
    if wrong:
        raise SystemExit("licenses that tools/images/licenses.py does not allow:\n  " + "\n  ".join(wrong))
    return sorted(found, key=lambda each: each.purl)


def debian_components(image: Built, trees: Trees) -> Iterator[Component]:
    for package in trees.source.lock.packages_of(image.image.packages):
        words = urllib.parse.urlencode({"arch": package.architecture, "distro": "debian-12"})
        purl = f"pkg:deb/debian/{quoted(package.name)}@{quoted(package.version)}?{words}"
        license_ = DEBIAN.get(package.name, "")
        yield Component(package.name, package.version, purl, license_, "SHA256", package.sha256)


def python_components(trees: Trees) -> Iterator[Component]:
    for each in trees.wheels:
        purl = f"pkg:pypi/{each.name}@{quoted(each.version)}"
        yield Component(each.name, each.version, purl, license_of(each.metadata), "SHA256", each.sha256)


def haulout(trees: Trees) -> Component:
    made = trees.own_wheel
    return Component(
        made.name,
        made.version,
        f"pkg:pypi/{made.name}@{quoted(made.version)}",
        license_of(made.metadata),
        "SHA256",
        made.sha256,
    )


def page_components() -> Iterator[Component]:
    for path, entry in json.loads(WEB_LOCK.read_text())["packages"].items():
        if path and not entry.get("dev"):
            name, version = path.removeprefix("node_modules/"), entry["version"]
            algorithm, _, digest = entry["integrity"].partition("-")
            hexadecimal = base64.b64decode(digest).hex()
            purl = f"pkg:npm/{urllib.parse.quote(name, safe='/')}@{quoted(version)}"
            yield Component(name, version, purl, entry["license"], algorithm.upper(), hexadecimal)


def write(output: Path, image: Built, trees: Trees) -> None:
    """Write both bills of an image beside its layout."""
    found = components(image, trees)
    made_at = trees.source.committed_at
    (output / f"{image.image.name}.spdx.json").write_bytes(encoded(spdx(image, found, made_at)))
    (output / f"{image.image.name}.cdx.json").write_bytes(encoded(cyclonedx(image, found, made_at)))


def spdx(image: Built, found: list[Component], made_at: str) -> Json:
    """Return a bill as SPDX 2.3 has it."""
    whole = {
        "SPDXID": "SPDXRef-image",
        "name": f"haulout-{image.image.name}",
        "versionInfo": image.digest,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "CONTAINER",
        "checksums": [{"algorithm": "SHA256", "checksumValue": image.digest.partition(":")[2]}],
    }
    parts = [
        {
            "SPDXID": spdx_id(each),
            "name": each.name,
            "versionInfo": each.version,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseConcluded": each.license,
            "licenseDeclared": each.license,
            "copyrightText": "NOASSERTION",
            "checksums": [{"algorithm": each.algorithm, "checksumValue": each.digest}],
            "externalRefs": [
                {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": each.purl}
            ],
        }
        for each in found
    ]
    describes = {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES"}
    contains = {"spdxElementId": "SPDXRef-image", "relationshipType": "CONTAINS"}
    own = [{"licenseId": "LicenseRef-public-domain", "extractedText": PUBLIC_DOMAIN}]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"haulout-{image.image.name}-{__version__}",
        "documentNamespace": f"{NAMESPACE}/haulout-{image.image.name}-{image.digest.partition(':')[2]}",
        "creationInfo": {"created": made_at, "creators": [f"Tool: haulout-images-{__version__}"]},
        "packages": [whole, *parts],
        "hasExtractedLicensingInfos": own,
        "relationships": [
            {**describes, "relatedSpdxElement": "SPDXRef-image"},
            *({**contains, "relatedSpdxElement": spdx_id(each)} for each in found),
        ],
    }


def spdx_id(part: Component) -> str:
    return "SPDXRef-" + re.sub(
        r"[^A-Za-z0-9.]+", "-", f"{part.purl.partition('/')[0]}-{part.name}-{part.version}"
    ).strip("-")


def cyclonedx(image: Built, found: list[Component], made_at: str) -> Json:
    """Return a bill as CycloneDX 1.6 has it."""
    whole = {
        "type": "container",
        "bom-ref": image.digest,
        "name": f"haulout-{image.image.name}",
        "version": __version__,
        "hashes": [{"alg": "SHA-256", "content": image.digest.partition(":")[2]}],
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    parts = [
        {
            "type": "library",
            "bom-ref": each.purl,
            "name": each.name,
            "version": each.version,
            "purl": each.purl,
            "licenses": [cyclonedx_license(each.license)],
            "hashes": [{"alg": each.algorithm.replace("SHA", "SHA-"), "content": each.digest}],
        }
        for each in found
    ]
    tool = {"type": "application", "name": "haulout-images", "version": __version__}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{NAMESPACE}/{image.digest}')}",
        "version": 1,
        "metadata": {"timestamp": made_at, "tools": {"components": [tool]}, "component": whole},
        "components": parts,
        "dependencies": [{"ref": image.digest, "dependsOn": [each.purl for each in found]}],
    }


def cyclonedx_license(expression: str) -> Json:
    if expression.startswith("LicenseRef-"):
        return {"license": {"name": expression}}
    return {"expression": expression} if " " in expression else {"license": {"id": expression}}


def quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
