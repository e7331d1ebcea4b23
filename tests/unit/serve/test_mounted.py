"""Certificates from files."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from haulout.runtime.metrics import Metrics
from haulout.serve.certificates import make_self_signed
from haulout.serve.measured_identity import ENDS_AT, MeasuredIdentity
from haulout.serve.mounted_certificates import MountedCertificate
from haulout.serve.tls import Pair, ServerIdentity

NOW = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
FIRST, SECOND = make_self_signed(["127.0.0.1"], NOW), make_self_signed(["127.0.0.1"], NOW)


def mounted(folder: Path, identity: ServerIdentity, metrics: Metrics | None = None) -> MountedCertificate:
    return MountedCertificate(identity, folder / "tls.crt", folder / "tls.key", metrics or Metrics())


def write(folder: Path, pair: Pair) -> None:
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)


def test_files_that_come_and_change_are_followed(tmp_path: Path) -> None:
    identity = ServerIdentity()
    files = mounted(tmp_path, identity)
    files.look()
    assert not identity.ready
    write(tmp_path, FIRST)
    files.look()
    assert not identity.use(FIRST)
    write(tmp_path, SECOND)
    files.look(closely=True)
    assert not identity.use(SECOND)


def test_while_certificate_and_key_do_not_fit_the_last_pair_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    identity, metrics = ServerIdentity(), Metrics()
    files = mounted(tmp_path, identity, metrics)
    write(tmp_path, FIRST)
    files.look()
    assert "certwatcher_read_certificate_errors_total 0" in metrics.render().decode()
    (tmp_path / "tls.crt").write_bytes(SECOND.certificate)
    for _ in range(3):
        files.look(closely=True)
    assert not identity.use(FIRST)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "certificate cannot be used"
    ]
    (tmp_path / "tls.key").write_bytes(SECOND.key)
    files.look(closely=True)
    assert not identity.use(SECOND)
    text = metrics.render().decode()
    assert "certwatcher_read_certificate_total 3" in text
    assert "certwatcher_read_certificate_errors_total 1" in text


def test_files_that_vanish_leave_what_was_in_them(tmp_path: Path) -> None:
    identity = ServerIdentity()
    files = mounted(tmp_path, identity)
    write(tmp_path, FIRST)
    files.look()
    (tmp_path / "tls.crt").unlink()
    files.look()
    assert not identity.use(FIRST)


def test_the_end_of_the_certificate_in_use_is_a_metric() -> None:
    metrics = Metrics()
    identity = MeasuredIdentity(ServerIdentity(), metrics)
    assert ENDS_AT not in metrics.render().decode()
    for began_at in (NOW, NOW + timedelta(days=1)):
        pair = make_self_signed(["127.0.0.1"], began_at)
        identity.use(pair)
        with pytest.raises(ssl.SSLError):
            identity.use(Pair(b"", pair.key))
        ends_at = x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc
        (line,) = [line for line in metrics.render().decode().splitlines() if line.startswith(ENDS_AT)]
        assert float(line.split()[1]) == ends_at.timestamp()
