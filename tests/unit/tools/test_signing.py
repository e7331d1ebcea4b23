"""Signatures of a release: they are checked by other programs, too, and nothing that was signed can be changed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.release import signing

openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
pytestmark = openssl


def run(*words: str | Path, **variables: str) -> None:
    subprocess.run(words, check=True, capture_output=True, env={**os.environ, **variables})


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a key, its public part, and the same of another key."""
    made = tmp_path_factory.mktemp("keys")
    for name in ("ours", "others"):
        run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", made / f"{name}.key")
        run("openssl", "ec", "-in", made / f"{name}.key", "-pubout", "-out", made / f"{name}.pub")
    run("openssl", "ecparam", "-name", "secp384r1", "-genkey", "-noout", "-out", made / "long.key")
    run("openssl", "pkcs8", "-topk8", "-in", made / "ours.key", "-passout", "pass:word", "-out", made / "locked.key")
    return made


def put(layout: Path, content: bytes) -> str:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    path = layout / "blobs" / digest.replace(":", "/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return digest


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A release of one file and one image."""
    images = tmp_path / "dist" / "images"
    layers = [{"digest": put(images / "layout", b"files")}]
    config = {"digest": put(images / "layout", b"{}")}
    digest = put(images / "layout", json.dumps({"config": config, "layers": layers}).encode())
    (images / "digests.txt").write_text(f"{digest}  operator\n")
    (images / "references.txt").write_text("operator reg.test/haulout:1.2.3\n")
    statement = {"subject": [{"name": "haulout-operator", "digest": {"sha256": digest.partition(":")[2]}}]}
    (images / "operator.provenance.json").write_text(json.dumps(statement))
    (tmp_path / "dist" / "chart.tgz").write_bytes(b"chart")
    (tmp_path / "dist" / "SHA256SUMS").write_text(f"{hashlib.sha256(b'chart').hexdigest()}  chart.tgz\n")
    return tmp_path / "dist"


def sign(dist: Path, key: Path) -> int:
    return signing.main(["sign", "--key", str(key), str(dist)])


def verify(dist: Path, key: Path) -> int:
    return signing.main(["verify", "--key", str(key), str(dist)])


def test_what_was_signed_is_verified_with_the_public_key(
    dist: Path, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sign(dist, keys / "ours.key") == 0
    capsys.readouterr()
    assert verify(dist, keys / "ours.pub") == 0
    assert [line.rpartition("/")[2].split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "SHA256SUMS",
        "operator",
    ]


def test_signatures_are_those_of_openssl_and_claims_those_of_cosign(dist: Path, keys: Path, tmp_path: Path) -> None:
    sign(dist, keys / "ours.key")
    images, raw = dist / "images", tmp_path / "raw.sig"
    envelope = json.loads((images / "operator.provenance.dsse.json").read_text())
    statement = base64.b64decode(envelope["payload"])
    prefix = f"DSSEv1 28 application/vnd.in-toto+json {len(statement)} ".encode()
    (tmp_path / "statement").write_bytes(prefix + statement)
    for content, encoded in (
        (dist / "SHA256SUMS", (dist / "SHA256SUMS.sig").read_text()),
        (images / "operator.cosign.json", (images / "operator.cosign.sig").read_text()),
        (tmp_path / "statement", envelope["signatures"][0]["sig"]),
    ):
        raw.write_bytes(base64.b64decode(encoded))
        run("openssl", "dgst", "-sha256", "-verify", keys / "ours.pub", "-signature", raw, content)
    claim = json.loads((images / "operator.cosign.json").read_text())["critical"]
    digest = (images / "digests.txt").read_text().split()[0]
    assert claim == {
        "identity": {"docker-reference": "reg.test/haulout:1.2.3"},
        "image": {"docker-manifest-digest": digest},
        "type": "cosign container image signature",
    }


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ("chart.tgz", "is not the file that"),
        ("SHA256SUMS", "the signature is not one of this key"),
        ("images/operator.cosign.json", "the signature is not one of this key"),
        ("images/layout/blobs/sha256/" + hashlib.sha256(b"files").hexdigest(), "its digest is not its name"),
    ],
)
def test_a_changed_file_is_refused(
    dist: Path, keys: Path, capsys: pytest.CaptureFixture[str], changed: str, complaint: str
) -> None:
    sign(dist, keys / "ours.key")
    (dist / changed).write_bytes((dist / changed).read_bytes() + b" ")
    assert verify(dist, keys / "ours.pub") == 1
    assert complaint in capsys.readouterr().err


def test_a_signature_of_another_image_is_refused(dist: Path, keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sign(dist, keys / "ours.key")
    other = put(dist / "images/layout", json.dumps({"config": {"digest": ""}, "layers": []}).encode())
    (dist / "images/digests.txt").write_text(f"{other}  operator\n")
    assert verify(dist, keys / "ours.pub") == 1
    assert "speaks for another image" in capsys.readouterr().err


def test_signatures_of_another_key_are_refused(dist: Path, keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sign(dist, keys / "others.key")
    assert verify(dist, keys / "ours.pub") == 1
    assert "the signature is not one of this key" in capsys.readouterr().err


def test_a_locked_key_is_opened_with_its_password(
    dist: Path, keys: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sign(dist, keys / "locked.key") == 1
    monkeypatch.setenv(signing.PASSWORD, "word")
    assert sign(dist, keys / "locked.key") == 0
    assert verify(dist, keys / "ours.pub") == 0


def test_a_key_of_another_kind_and_an_empty_directory_are_refused(
    dist: Path, keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sign(dist, keys / "long.key") == 1
    assert "ECDSA over P-256" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert sign(tmp_path / "empty", keys / "ours.key") == 1
    assert "run `make release`" in capsys.readouterr().err
