"""Units at the edge: what a file may say, and what people read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import SpecError
from roofline.units import (
    BYTES,
    BYTES_PER_S,
    FLOPS_PER_S,
    SECONDS,
    USD_PER_HOUR,
    WATTS,
    Quantity,
    format_bytes,
    format_si,
    parse,
)


@pytest.mark.parametrize(
    ("text", "quantity", "value"),
    [
        ("80 GB", BYTES, 80e9),
        ("80 GiB", BYTES, 85_899_345_920.0),  # 80 · 2³⁰
        ("81559 MiB", BYTES, 85_520_809_984.0),  # 81559 · 2²⁰
        ("80GB", BYTES, 80e9),
        ("  80   GB ", BYTES, 80e9),
        ("1_000 MB", BYTES, 1e9),
        ("1,000 MB", BYTES, 1e9),
        ("50 MiB", BYTES, 52_428_800.0),
        ("1 B", BYTES, 1.0),
        ("4.8 TB/s", BYTES_PER_S, 4.8e12),
        ("3.35e3 GB/s", BYTES_PER_S, 3.35e12),
        ("400 Gbit/s", BYTES_PER_S, 50e9),
        ("63.015 GB/s", BYTES_PER_S, 63.015e9),
        ("989.4 TFLOP/s", FLOPS_PER_S, 989.4e12),
        ("1978.9 TOP/s", FLOPS_PER_S, 1978.9e12),
        ("1.4 PFLOP/s", FLOPS_PER_S, 1.4e15),
        ("2 us", SECONDS, 2e-6),
        ("2 µs", SECONDS, 2e-6),
        ("5 ns", SECONDS, 5e-9),
        ("700 W", WATTS, 700.0),
        ("1.2 kW", WATTS, 1200.0),
        ("2.69 USD/h", USD_PER_HOUR, 2.69),
    ],
)
def test_a_quantity_is_the_nearest_float_of_what_was_written(text: str, quantity: Quantity, value: float) -> None:
    assert parse(text, quantity) == value


@given(st.integers(1, 10**9), st.sampled_from([("k", 10**3), ("M", 10**6), ("Ki", 2**10), ("Mi", 2**20), ("", 1)]))
def test_a_prefix_is_a_factor(number: int, prefix: tuple[str, int]) -> None:
    assert parse(f"{number} {prefix[0]}B", BYTES) == number * prefix[1]


def test_a_gigabyte_and_a_gibibyte_are_both_legal_and_differ_by_7_percent() -> None:
    assert parse("1 GiB", BYTES) / parse("1 GB", BYTES) == 1.073741824


@given(st.floats(1, 9e17))
def test_a_float_survives_being_written_and_read(value: float) -> None:
    assert parse(f"{value!r} B", BYTES) == value


@pytest.mark.parametrize("text", ["3,35 TB/s", "0,5 TB/s", "3,350,0 GB/s", "1,2,3 TB/s", "12,34 GB/s"])
def test_a_comma_is_never_taken_for_a_decimal_point(text: str) -> None:
    """In half of Europe "3,35 TB/s" is what "3.35 TB/s" is here; 335 TB/s is what nobody means."""
    with pytest.raises(SpecError, match=r"^expected a rate such as"):
        parse(text, BYTES_PER_S)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (16_384, "16.0 KiB"),
        (33_554_432, "32.0 MiB"),  # W_Q of Llama-2-7B: not 33.6
        (4352 * 2**20, "4.25 GiB"),
        (85_520_809_984, "79.6 GiB"),  # an "80 GB" H100
    ],
)
def test_capacities_are_said_in_binary_prefixes(n_bytes: float, text: str) -> None:
    assert format_bytes(n_bytes) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.35e12, "B/s", "3.35 TB/s"),
        (134_217_728, "FLOP", "134 MFLOP"),
        (989.4e12, "FLOP/s", "989 TFLOP/s"),
        (0.00448, "s", "4.48 ms"),
        (5e-7, "s", "500 ns"),
        (0.9999, "s", "1.00 s"),
        (0.0, "s", "0 s"),
        (999.6, "B", "1.00 kB"),
    ],
)
def test_traffic_and_times_are_said_in_decimal_prefixes(value: float, unit: str, text: str) -> None:
    assert format_si(value, unit) == text


@given(st.floats(1e-9, 1e18))
def test_what_people_read_is_what_was_meant_to_half_a_percent(value: float) -> None:
    number, unit = format_si(value, "s").split(" ")
    scale = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
    assert float(number.replace(",", "")) * scale[unit[:-1]] == pytest.approx(value, rel=0.0051)
