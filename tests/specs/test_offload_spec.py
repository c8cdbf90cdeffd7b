"""What may be said of a part in another memory, in words and in a file, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.answers.offload import NVME_BYTES_PER_S
from roofline.specs.offload import DRIVES, Offload

H100 = rl.hardware("h100-sxm-80gb")
LLAMA, QWEN = rl.model("llama-3.1-8b"), rl.model("qwen3-30b-a3b")
ENCODER = rl.Model.read(
    {
        "id": "encoder", "name": "Encoder", "dtype": "fp16", "d_model": 64, "vocab_size": 100, "max_context_tokens": 512,
        "layers": [{"layers": [{"mixer": {"kind": "attention", "n_heads": 2, "n_kv_heads": 2, "d_head": 32, "causal": False},
                                "ffn": {"kind": "dense", "d_ff": 128}}]}],
        "head": None,
    },
    where="encoder.yaml",
)  # fmt: skip


def on_h100(offload: Any, model: rl.Model = LLAMA) -> rl.Deployment:
    return rl.Deployment(model=model, hardware=H100, offload=offload)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("host:0.5", Offload(to="host", fraction=0.5)),
        ("host:1:experts", Offload(to="host", fraction=1.0, what="experts")),
        ("nvme-gen5-x4:0.25:kv", Offload(to="nvme-gen5-x4", fraction=0.25, what="kv")),
        ("nvme-gen4-x4:0", Offload(to="nvme-gen4-x4", fraction=0.0)),
        ("host:1e-3:weights", Offload(fraction=0.001)),
    ],
)
def test_a_text_means_what_it_says(text: str, meant: Offload) -> None:
    assert Offload.parse(text) == meant
    assert on_h100(text, QWEN).offload == on_h100(meant, QWEN).offload == meant


@given(st.sampled_from(["host", *DRIVES]), st.floats(0, 1), st.sampled_from(["weights", "experts", "kv"]))
def test_any_share_of_any_part_can_be_written_down(to: Any, fraction: float, what: Any) -> None:
    assert Offload.parse(f"{to}:{fraction!r}:{what}") == Offload(to=to, fraction=fraction, what=what)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("host", "expected TIER:SHARE"),
        ("", "expected TIER:SHARE"),
        ("host:", "expected TIER:SHARE"),
        ("host:half", "expected TIER:SHARE"),
        ("host:0.5:", None),
        ("hosts:0.5", "did you mean host"),
        ("nvme:0.5", "tiers: host, nvme-gen4-x4, nvme-gen5-x4"),
        ("host:0.5:expert", "did you mean experts"),
        ("host:0.5:weights:more", "what: weights, experts, kv"),
        ("host:1.5", "the share is from 0 to 1"),
        ("host:-0.1", "the share is from 0 to 1"),
        ("host:nan", "the share is from 0 to 1"),
        ("host:inf", "the share is from 0 to 1"),
        ("HOST:0.5", "tiers: host"),
        (" host:0.5", "tiers: host"),
        ("x" * 10_000, "expected TIER:SHARE"),
    ],
)
def test_what_says_nothing_is_refused_with_what_would(text: str, complaint: str | None) -> None:
    if complaint is None:
        assert Offload.parse(text) == Offload(fraction=0.5)
        return
    with pytest.raises(rl.SpecError, match=complaint) as error:
        Offload.parse(text)
    assert str(error.value).startswith("offload: ")
    assert len(str(error.value)) < 400


@given(st.text(max_size=30) | st.from_regex(r"(host|nvme-gen4-x4):[0-9.e+-]*(:(kv|weights|experts)?)?", fullmatch=True))
def test_any_text_is_an_offload_or_an_error_of_ours(text: str) -> None:
    try:
        found = Offload.parse(text)
    except rl.SpecError:
        return
    assert 0 <= found.fraction <= 1


def test_a_file_spells_rates_with_their_units() -> None:
    read = Offload.read(
        {"fraction": 0.5, "bandwidth": "50 GB/s", "host_peak": "2 TFLOP/s", "compute": "host"}, where="o"
    )
    assert (read.bytes_per_s, read.host_flops_per_s) == (50e9, 2e12)
    assert Offload(fraction=0.5, bandwidth="50 GB/s").bytes_per_s == 50e9  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"fraction": 1.1}, "fraction"),
        ({"fraction": -0.1}, "fraction"),
        ({"fraction": float("nan")}, "fraction"),
        ({"fraction": "half"}, "fraction"),
        ({}, "fraction"),
        ({"fraction": 0.5, "to": "disk"}, "to"),
        ({"fraction": 0.5, "what": "activations"}, "what"),
        ({"fraction": 0.5, "compute": "cpu"}, "compute"),
        ({"fraction": 0.5, "bandwidth": "50 GB"}, "bandwidth"),
        ({"fraction": 0.5, "bandwidth": "0 GB/s"}, "bandwidth"),
        ({"fraction": 0.5, "overlap": "yes"}, "overlap"),
        ({"fraction": 0.5, "speed": 1}, "speed"),
        ({"fraction": 0.5, "to": "nvme-gen4-x4", "compute": "host"}, "nothing computes on nvme-gen4-x4"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(rl.SpecError, match=complaint):
        Offload.read(fields, where="offload")
    with pytest.raises(rl.SpecError, match=complaint):
        Offload(**fields)


def test_a_drive_is_four_lanes_after_the_line_code() -> None:
    """PCI Express 4.0 and 5.0: 16 and 32 GT/s a lane, of which 128 of 130 bits are data."""
    assert {name: round(rate / 1e6) for name, rate in DRIVES.items()} == {
        f"nvme-gen{n}-x4": round(4 * lane * 128 / 130 / 8 / 1e6) for n, lane in ((4, 16e9), (5, 32e9))
    }
    assert NVME_BYTES_PER_S == DRIVES


# What a deployment takes


def test_what_a_model_does_not_have_cannot_be_moved() -> None:
    with pytest.raises(rl.SpecError, match=r"llama-3\.1-8b has no experts; use what weights"):
        on_h100("host:1:experts")
    with pytest.raises(rl.SpecError, match="encoder is an encoder and keeps no cache"):
        on_h100("host:0.5:kv", ENCODER)
    assert on_h100("host:1:experts", QWEN).offload == Offload(fraction=1.0, what="experts")
    assert on_h100("host:0.5", ENCODER).offload is not None


@pytest.mark.parametrize("given_offload", [0.5, 1, True, ["host:0.5"], {"to": "host"}])
def test_what_is_no_offload_is_said(given_offload: object) -> None:
    with pytest.raises(rl.SpecError, match=r'expected an Offload or a text such as "host:0\.5"'):
        on_h100(given_offload)


def test_nothing_said_is_nothing_moved() -> None:
    assert on_h100(None).offload is None
    assert rl.Deployment(model=LLAMA, hardware=H100).offload is None


def test_a_deployment_with_something_elsewhere_is_another_one() -> None:
    assert on_h100("host:0.5") == on_h100("host:0.5") != on_h100("host:0.6")
