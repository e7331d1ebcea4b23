"""Our own certificates: which clients trust them, and when they are renewed."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cryptography import x509

from haulout.serve.bundle import Bundle, Unusable
from haulout.serve.certificates import (
    AUTHORITY_FOR,
    AUTHORITY_KNOWN_AFTER,
    RENEW_AUTHORITY_BEFORE,
    RENEW_SERVING_BEFORE,
    SERVING_FOR,
    check,
    make_bundle,
    names_of,
    next_renewal,
    with_fresh_authority,
    with_fresh_serving,
)
from haulout.serve.tls import Pair, ServerIdentity, loaded

NAMES = ("haulout-webhook.haulout-system.svc", "127.0.0.1")
NOW = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
# The library counts whole seconds.
MOMENT = timedelta(seconds=1)


def authorities(bundle: Bundle) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(bundle.authorities)


def serving(bundle: Bundle) -> x509.Certificate:
    return x509.load_pem_x509_certificate(bundle.serving.certificate)


def renewed(bundle: Bundle, now: datetime) -> Bundle:
    return with_fresh_serving(with_fresh_authority(bundle, now), NAMES, now)


def trusts(bundle: Bundle, pair: Pair, host: str, now: datetime) -> bool:
    """Whether a client that was given the authorities would talk to a server with this certificate."""
    store = x509.verification.Store(authorities(bundle))
    builder = x509.verification.PolicyBuilder().store(store).time(now)
    verifier = builder.build_server_verifier(x509.DNSName(host))
    try:
        verifier.verify(x509.load_pem_x509_certificate(pair.certificate), [])
    except x509.verification.VerificationError:
        return False
    return True


def test_what_is_made_is_whole_and_trusted() -> None:
    bundle = make_bundle(NAMES, NOW)
    check(bundle)
    assert names_of(serving(bundle)) == set(NAMES)
    assert trusts(bundle, bundle.serving, NAMES[0], NOW)
    assert not trusts(bundle, bundle.serving, "other.svc", NOW)
    assert not trusts(make_bundle(NAMES, NOW), bundle.serving, NAMES[0], NOW)
    assert isinstance(loaded(bundle.serving), ssl.SSLContext)


def test_nothing_is_renewed_before_its_time() -> None:
    bundle = make_bundle(NAMES, NOW)
    assert renewed(bundle, NOW + AUTHORITY_KNOWN_AFTER + MOMENT) == bundle
    assert renewed(bundle, NOW + SERVING_FOR - RENEW_SERVING_BEFORE) == bundle


def test_the_certificate_is_renewed_by_the_same_authority() -> None:
    bundle = make_bundle(NAMES, NOW)
    later = NOW + SERVING_FOR - RENEW_SERVING_BEFORE + MOMENT
    fresh = renewed(bundle, later)
    assert fresh.authorities == bundle.authorities
    assert fresh.serving != bundle.serving
    assert serving(fresh).not_valid_after_utc == later + SERVING_FOR
    check(fresh)


def test_a_missing_name_is_added_and_a_superfluous_one_changes_nothing() -> None:
    bundle = make_bundle(NAMES, NOW)
    fresh = with_fresh_serving(bundle, {*NAMES, "::1"}, NOW)
    assert names_of(serving(fresh)) == {*NAMES, "::1"}
    assert with_fresh_serving(fresh, NAMES, NOW) == fresh


def test_a_new_authority_is_known_to_all_before_it_signs_and_the_old_one_stays_until_its_last_is_out() -> None:
    late = NOW + AUTHORITY_FOR - RENEW_AUTHORITY_BEFORE + MOMENT
    # The certificate ends soon, too. One of an authority that clients do not know yet would be of no use to them.
    bundle = with_fresh_serving(make_bundle(NAMES, NOW), NAMES, late - SERVING_FOR + RENEW_SERVING_BEFORE / 2)
    old = authorities(bundle)[0]

    announced = renewed(bundle, late)
    assert [each == old for each in authorities(announced)] == [False, True]
    assert announced.serving == bundle.serving
    assert trusts(announced, bundle.serving, NAMES[0], late)

    in_use = renewed(announced, late + AUTHORITY_KNOWN_AFTER)
    assert in_use.authorities == announced.authorities
    assert trusts(in_use, in_use.serving, NAMES[0], late + AUTHORITY_KNOWN_AFTER)
    # A replica that serves the old certificate, or a client that does not know the new authority yet, still works.
    assert trusts(in_use, bundle.serving, NAMES[0], late + AUTHORITY_KNOWN_AFTER)
    assert trusts(announced, in_use.serving, NAMES[0], late + AUTHORITY_KNOWN_AFTER)

    after = late + AUTHORITY_KNOWN_AFTER + SERVING_FOR + MOMENT
    alone = renewed(renewed(in_use, after), after)
    assert authorities(alone) == authorities(announced)[:1]
    check(alone)


def test_a_certificate_that_has_ended_is_renewed_by_an_authority_that_is_not_known_yet() -> None:
    late = NOW + AUTHORITY_FOR - RENEW_AUTHORITY_BEFORE + MOMENT
    bundle = with_fresh_serving(make_bundle(NAMES, NOW), NAMES, late - SERVING_FOR - MOMENT)
    fresh = renewed(bundle, late)
    assert trusts(fresh, fresh.serving, NAMES[0], late)


def test_the_next_look_is_when_something_is_due() -> None:
    bundle = make_bundle(NAMES, NOW)
    instant, looks = NOW, 0
    while instant < NOW + AUTHORITY_FOR * 2:
        instant = next_renewal(bundle, instant) + MOMENT
        bundle, looks = renewed(bundle, instant), looks + 1
        assert serving(bundle).not_valid_after_utc > instant
        assert authorities(bundle)[0].not_valid_after_utc > instant
        check(bundle)
    # One every two months, and a few around each change of authority.
    assert 100 < looks < 300


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"authorities": b""}, "PEM", id="no authority"),
        pytest.param({"authorities": b"nonsense"}, "PEM", id="nonsense"),
        pytest.param({"authority_key": b""}, "PEM", id="no key"),
        pytest.param({"authority_key": make_bundle(NAMES, NOW).authority_key}, "does not belong", id="a foreign key"),
        pytest.param({"serving": make_bundle(NAMES, NOW).serving}, "not signed by", id="a foreign certificate"),
    ],
)
def test_what_does_not_fit_together_is_not_used(change: dict[str, object], problem: str) -> None:
    broken = msgspec.structs.replace(make_bundle(NAMES, NOW), **change)
    with pytest.raises(Unusable, match=problem):
        check(broken)


def test_an_identity_keeps_the_last_certificate_that_could_be_used() -> None:
    first, second = make_bundle(NAMES, NOW).serving, make_bundle(NAMES, NOW).serving
    identity = ServerIdentity()
    assert not identity.ready
    assert identity.use(first)
    assert not identity.use(first)
    with pytest.raises(ssl.SSLError):
        identity.use(Pair(first.certificate, second.key))
    assert identity.ready
    assert not identity.use(first)
    assert identity.use(second)


def test_keys_do_not_get_into_logs() -> None:
    bundle = make_bundle(NAMES, NOW)
    assert "PRIVATE" not in f"{bundle!r}{bundle.serving!r}{bundle}"
