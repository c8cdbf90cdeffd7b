"""Number formats: the bits of an element, worked out from the layout of the block that holds it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.dtypes import FORMATS, format_named
from roofline.errors import UnknownName

# ggml-common.h: bytes of a block, its fields in order, over the elements it holds
GGML_BLOCKS = {
    "q4_0": (2 + 16, 32),  # scale, 4 bits each
    "q4_1": (2 + 2 + 16, 32),  # scale, minimum
    "q5_0": (2 + 4 + 16, 32),  # scale, fifth bits
    "q5_1": (2 + 2 + 4 + 16, 32),
    "q8_0": (2 + 32, 32),
    "q2_k": (16 + 64 + 2 + 2, 256),  # scales, quants, scale and minimum of the super-block
    "q3_k": (32 + 64 + 12 + 2, 256),  # high bits, quants, scales, scale
    "q4_k": (2 + 2 + 12 + 128, 256),
    "q5_k": (2 + 2 + 12 + 32 + 128, 256),
    "q6_k": (128 + 64 + 16 + 2, 256),
}


@pytest.mark.parametrize(("name", "block"), GGML_BLOCKS.items())
def test_a_ggml_element_takes_its_share_of_the_block(name: str, block: tuple[int, int]) -> None:
    n_bytes, n_elements = block
    assert format_named(name).bits == 8 * n_bytes / n_elements


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("fp32", 32),
        ("fp16", 16),
        ("bf16", 16),
        ("fp8", 8),
        ("int8", 8),
        ("int4", 4),
        ("mxfp4", 4 + 8 / 32),  # OCP MX: one 8-bit exponent for 32
        ("nvfp4", 4 + 8 / 16),  # one 8-bit scale for 16
        ("awq", 4 + (16 + 4) / 128),  # a 16-bit scale and a 4-bit zero point for 128
        ("gptq", 4 + (16 + 4) / 128),
        ("fp8-block", 8 + 32 / (128 * 128)),
        ("mlx-4bit", 4 + (16 + 16) / 64),  # a 16-bit scale and a 16-bit bias for 64
        ("mlx-6bit", 6.5),
        ("mlx-8bit", 8.5),
    ],
)
def test_scales_count(name: str, bits: float) -> None:
    assert format_named(name).bits == bits


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("F16", "fp16"),
        ("float16", "fp16"),
        ("BF16", "bf16"),
        ("bfloat16", "bf16"),
        ("Q4_K_M", "q4_k_m"),
        ("q4-k-m", "q4_k_m"),
        (" q8_0 ", "q8_0"),
        ("fp8_e4m3", "fp8"),
        ("MXFP4", "mxfp4"),
        ("mlx-4", "mlx-4bit"),
        ("W4A16", "int4"),
    ],
)
def test_formats_go_by_the_names_people_type(typed: str, name: str) -> None:
    assert format_named(typed).name == name


@given(st.sampled_from(sorted(FORMATS)), st.sampled_from([str.upper, str.lower, str.title]))
def test_case_and_dashes_do_not_matter(name: str, change: object) -> None:
    assert callable(change)
    assert format_named(change(name)).name == format_named(name.replace("_", "-")).name == name


@pytest.mark.parametrize(
    ("name", "kept"),
    [("awq", {"embedding", "head"}), ("fp8", {"embedding", "head"}), ("bf16", set()), ("mlx-4bit", set())],
)
def test_quantisers_of_linear_layers_leave_the_tables_in_16_bit(name: str, kept: set[str]) -> None:
    found = format_named(name)
    assert {role for role in ("q", "down", "embedding", "head") if found.bits_of(role) == 16 != found.bits} == kept


def test_llama_cpp_gives_the_output_matrix_more_bits() -> None:
    assert format_named("q4_k_m").bits_of("head") == 6.5625  # q6_k
    assert format_named("q8_0").bits_of("head") == 8.5
    assert format_named("q4_k_m").bits_of("embedding") == 4.5


def test_half_of_the_value_and_down_matrices_of_q4_k_m_are_q6_k() -> None:
    """Layers of the first eighth, of the last, and every third between: 16 of 32."""
    more = [i for i in range(32) if i < 4 or i >= 28 or (i - 4) % 3 == 2]
    assert len(more) == 16
    assert format_named("q4_k_m").bits_of("down") == (16 * 6.5625 + 16 * 4.5) / 32


@pytest.mark.parametrize("name", ["q4_k_l", "fp7", "", "  ", "bf 16", "\x00", "q" * 10_000])
def test_an_unknown_format_is_an_error_that_lists_the_known(name: str) -> None:
    with pytest.raises(UnknownName) as caught:
        format_named(name)
    message = str(caught.value)
    assert message.startswith("no number format named")
    assert "bf16" in message
    assert len(message) < 1000
