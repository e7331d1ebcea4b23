"""Quantities of Kubernetes resources."""

import pytest

from haulout.base import quantity


@pytest.mark.parametrize(
    ("text", "canonical", "thousandths"),
    [
        ("0", "0", 0),
        ("0.5", "500m", 500),
        ("1.5Gi", "1536Mi", 1536 * 1024 * 1024 * 1000),
        ("1000m", "1", 1000),
        ("1000", "1k", 1_000_000),
        ("1024", "1024", 1_024_000),
        ("512Ki", "512Ki", 524_288_000),
        ("0.1Gi", "107374182400m", 107_374_182_400),
        ("1e3", "1e3", 1_000_000),
        ("12E6", "12e6", 12_000_000_000),
        ("1E", "1E", 10**21),
        ("-5m", "-5m", -5),
        ("0.0000000001", "1n", 1),
    ],
)
def test_quantities(text: str, canonical: str, thousandths: int) -> None:
    assert quantity.canonical(text) == canonical
    assert quantity.thousandths(text) == thousandths


@pytest.mark.parametrize("text", ["", "abc", "1x", "1.2.3", "1 Gi", "1Gib"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(quantity.QuantityError):
        quantity.amount(text)


def test_values_are_rounded_up() -> None:
    assert quantity.whole("1500m") == 2
    assert quantity.whole("-1500m") == -1
    assert quantity.thousandths("1n") == 1
