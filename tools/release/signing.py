"""`python -m tools.release.signing`: signs a release and its images with a key, and checks their signatures.

    python -m tools.release.signing sign --key key.pem dist
    python -m tools.release.signing verify --key public.pem dist

The signatures are ECDSA over P-256 and SHA-256 in base64, as cosign and openssl make them. It signs every SHA256SUMS, which names
all other files, the digest of each image as cosign does, and the provenance of each image as an envelope of DSSE.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from tools.images.spec import REFERENCES

Json = dict[str, Any]

SUMS, DIGESTS = "SHA256SUMS", "digests.txt"
STATEMENT_TYPE = "application/vnd.in-toto+json"
PASSWORD = "SIGNING_KEY_PASSWORD"


class Refused(Exception):
    """The reason why something cannot be signed, or is not what was signed."""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.release.signing", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("act", choices=["sign", "verify"])
    parser.add_argument(
        "--key", type=Path, required=True, help=f"private or public key (PEM); its password in {PASSWORD}"
    )
    parser.add_argument("directory", type=Path, help="what `make release` and `make images` have made")
    given = parser.parse_args(words)
    try:
        if given.act == "sign":
            done = sign(given.directory, private_key(given.key))
        else:
            done = verify(given.directory, public_key(given.key))
    except (Refused, OSError, ValueError) as error:
        print(f"signing: {error}", file=sys.stderr)
        return 1
    print("\n".join(done))
    return 0


def sign(directory: Path, key: EllipticCurvePrivateKey) -> list[str]:
    """Sign everything in a directory of a release, each image for the place that it will be at. Return the files that were written."""
    written = []
    for digests in sorted(directory.rglob(DIGESTS)):
        folder = digests.parent
        places = references(folder / REFERENCES)
        for digest, name in images(digests):
            payload = encoded(claim(digest, places[name]))
            envelope = signed_statement((folder / f"{name}.provenance.json").read_bytes(), key)
            written += [
                write(folder / f"{name}.cosign.json", payload),
                write(folder / f"{name}.cosign.sig", signature(key, payload)),
                write(folder / f"{name}.provenance.dsse.json", encoded(envelope)),
            ]
    for sums in sorted(directory.rglob(SUMS)):
        written.append(write(sums.with_name(f"{SUMS}.sig"), signature(key, sums.read_bytes())))
    if not written:
        raise Refused(f"{directory} has neither {SUMS} nor {DIGESTS}: run `make release` and `make images`")
    return written


def verify(directory: Path, key: EllipticCurvePublicKey) -> list[str]:
    """Check every signature in a directory, and every file that a signature speaks for. Return what was checked."""
    checked = []
    for sums in sorted(directory.rglob(SUMS)):
        check(key, sums.read_bytes(), sums.with_name(f"{SUMS}.sig").read_bytes(), sums)
        for line in sums.read_text().splitlines():
            digest, _, name = line.partition("  ")
            if hashlib.sha256((sums.parent / name).read_bytes()).hexdigest() != digest:
                raise Refused(f"{sums.parent / name} is not the file that {sums} names")
        checked.append(f"{sums} and its files")
    for digests in sorted(directory.rglob(DIGESTS)):
        folder = digests.parent
        for digest, name in images(digests):
            payload = (folder / f"{name}.cosign.json").read_bytes()
            check(key, payload, (folder / f"{name}.cosign.sig").read_bytes(), folder / f"{name}.cosign.json")
            if json.loads(payload)["critical"]["image"]["docker-manifest-digest"] != digest:
                raise Refused(f"{folder / name}.cosign.json speaks for another image than {digest}")
            check_statement(key, folder / f"{name}.provenance.dsse.json", digest)
            check_layout(folder / "layout", digest)
            checked.append(f"{folder / name} {digest}: signature, provenance and layers")
    if not checked:
        raise Refused(f"{directory} has neither {SUMS} nor {DIGESTS}")
    return checked


def references(path: Path) -> dict[str, str]:
    """Return where images will be, by name, as `tools.images --repository` has written it down."""
    return {line.split(" ")[0]: line.split(" ")[1] for line in path.read_text().splitlines()}


def claim(digest: str, reference: str) -> Json:
    """Return what a signature of cosign is made of."""
    image = {"docker-manifest-digest": digest}
    critical = {"identity": {"docker-reference": reference}, "image": image, "type": "cosign container image signature"}
    return {"critical": critical, "optional": None}


def signed_statement(payload: bytes, key: EllipticCurvePrivateKey) -> Json:
    """Return an in-toto statement in an envelope of DSSE."""
    sig = signature(key, authenticated(payload)).decode()
    return {
        "payloadType": STATEMENT_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": "", "sig": sig}],
    }


def check_statement(key: EllipticCurvePublicKey, path: Path, digest: str) -> None:
    envelope = json.loads(path.read_bytes())
    payload = base64.b64decode(envelope["payload"])
    check(key, authenticated(payload), envelope["signatures"][0]["sig"].encode(), path)
    (subject,) = json.loads(payload)["subject"]
    if f"sha256:{subject['digest']['sha256']}" != digest:
        raise Refused(f"{path} speaks for another image than {digest}")


def check_layout(layout: Path, digest: str) -> None:
    """Check the content of an image's manifest, configuration and layers."""
    manifest = json.loads(blob(layout, digest))
    for part in (manifest["config"], *manifest["layers"]):
        blob(layout, part["digest"])


def blob(layout: Path, digest: str) -> bytes:
    path = layout / "blobs" / digest.replace(":", "/")
    content = path.read_bytes()
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
        raise Refused(f"{path} was changed: its digest is not its name")
    return content


def images(digests: Path) -> list[tuple[str, str]]:
    """Return the digests and names of a directory's images."""
    found = [line.partition("  ") for line in digests.read_text().splitlines()]
    return [(digest, name) for digest, _, name in found]


def authenticated(payload: bytes) -> bytes:
    """Return what a signature of DSSE is over: type and payload with their lengths."""
    kind = STATEMENT_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def signature(key: EllipticCurvePrivateKey, content: bytes) -> bytes:
    return base64.b64encode(key.sign(content, ECDSA(SHA256())))


def check(key: EllipticCurvePublicKey, content: bytes, sig: bytes, path: Path) -> None:
    try:
        key.verify(base64.b64decode(sig), content, ECDSA(SHA256()))
    except InvalidSignature as error:
        raise Refused(f"{path}: the signature is not one of this key over this content") from error


def private_key(path: Path) -> EllipticCurvePrivateKey:
    password = os.environ.get(PASSWORD)
    try:
        key = load_pem_private_key(path.read_bytes(), password.encode() if password else None)
    except TypeError as error:
        raise Refused(f"{path}: {error} (its password is read from {PASSWORD})") from error
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise Refused(f"{path} has to be a key for ECDSA over P-256: openssl ecparam -name prime256v1 -genkey -noout")
    return key


def public_key(path: Path) -> EllipticCurvePublicKey:
    key = load_pem_public_key(path.read_bytes())
    if not isinstance(key, EllipticCurvePublicKey):
        raise Refused(f"{path} has to be a public key for ECDSA over P-256")
    return key


def encoded(content: Json) -> bytes:
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
