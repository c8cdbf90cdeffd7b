"""GGUF files: small ones, written here with the gguf package, read back to records that hold every parameter and byte."""

from __future__ import annotations

import contextlib
import math
import struct
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roofline.dtypes import format_named, stored_as
from roofline.errors import SpecError, Unsupported
from roofline.specs.ffns import Dense, Moe
from roofline.specs.gguf.header import read_header
from roofline.specs.gguf.reader import read_gguf
from roofline.specs.matrix import Matrix
from roofline.specs.mixers import Attention, Delta, Latent, Mamba2
from roofline.specs.model import Model

gguf = pytest.importorskip("gguf")
np = pytest.importorskip("numpy")

Shapes = dict[str, tuple[tuple[int, ...], str]]  # name: dimensions, d_in last; ggml type

D, V, L = 256, 512, 4
NO_PARAMETERS = ("rope_freqs.weight", "exp_probs_b.bias", "rope_factors_long.weight")


def write(path: Path, arch: str, keys: Mapping[str, Any], tensors: Shapes, *, n_tokens: int = V, **more: Any) -> Path:
    """A GGUF file with these keys after "arch." and zeros for weights."""
    writer = gguf.GGUFWriter(path, arch, **more)
    for key, value in ({"context_length": 4096, "embedding_length": D, "block_count": L} | dict(keys)).items():
        add = {list: writer.add_array, float: writer.add_float32, bool: writer.add_bool}
        add.get(type(value), writer.add_uint32)(f"{arch}.{key}", value)
    writer.add_token_list([f"token {i}" for i in range(n_tokens)])
    for name, (dims, kind) in tensors.items():
        if kind in ("f32", "f16"):
            writer.add_tensor(name, np.zeros(dims, dtype=f"float{kind[1:]}"))
        else:
            quantised = gguf.GGMLQuantizationType[kind.upper()]
            shape = gguf.quant_shape_to_byte_shape(dims, quantised)
            writer.add_tensor(name, np.zeros(shape, dtype=np.uint8), raw_dtype=quantised)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def norms(*names: str, bias: bool = False) -> Shapes:
    return {f"{n}.{part}": ((D,), "f32") for n in names for part in (("weight", "bias") if bias else ("weight",))}


def heads(n: int, k: int, h: int, kind: str = "q4_k", *, v: str | None = None, o: str | None = None) -> Shapes:
    return {
        "attn_q.weight": ((n * h, D), kind),
        "attn_k.weight": ((k * h, D), kind),
        "attn_v.weight": ((k * h, D), v or kind),
        "attn_output.weight": ((D, n * h), o or kind),
    }


def gated(d_ff: int, kind: str = "q4_k", *, down: str | None = None) -> Shapes:
    return {
        "ffn_gate.weight": ((d_ff, D), kind),
        "ffn_up.weight": ((d_ff, D), kind),
        "ffn_down.weight": ((D, d_ff), down or kind),
    }


def experts(n: int, d_ff: int, kind: str = "q4_k", *, down: str | None = None) -> Shapes:
    return {
        "ffn_gate_inp.weight": ((n, D), "f32"),
        "ffn_gate_exps.weight": ((n, d_ff, D), kind),
        "ffn_up_exps.weight": ((n, d_ff, D), kind),
        "ffn_down_exps.weight": ((n, D, d_ff), down or kind),
    }


def shared(d_ff: int, kind: str = "q8_0") -> Shapes:
    return {
        "ffn_gate_shexp.weight": ((d_ff, D), kind),
        "ffn_up_shexp.weight": ((d_ff, D), kind),
        "ffn_down_shexp.weight": ((D, d_ff), kind),
    }


def vectors(**sizes: int) -> Shapes:
    return {name.replace("__", "."): ((n,), "f32") for name, n in sizes.items()}


@dataclass
class Case:
    arch: str
    keys: dict[str, Any]
    blocks: list[Shapes]
    tied: bool = False
    bias: bool = False
    table: str = "q4_k"
    also: Shapes = field(default_factory=dict)

    def tensors(self) -> Shapes:
        top: Shapes = {"token_embd.weight": ((V, D), self.table), **norms("output_norm", bias=self.bias), **self.also}
        if not self.tied:
            top["output.weight"] = ((V, D), "q6_k")
        inside = {f"blk.{i}.{name}": t for i, block in enumerate(self.blocks) for name, t in block.items()}
        return top | inside

    def write(self, folder: Path, **more: Any) -> Path:
        return write(
            folder / f"{self.arch}.gguf",
            self.arch,
            {"block_count": len(self.blocks)} | self.keys,
            self.tensors(),
            **more,
        )


GQA = {"attention.head_count": 8, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5}
MHA = {"attention.head_count": 8, "attention.layer_norm_epsilon": 1e-5}
MOE = {"expert_count": 8, "expert_used_count": 2}
PRE = norms("attn_norm", "ffn_norm")
LLAMA = PRE | heads(8, 2, 32) | gated(512)
QK = vectors(attn_q_norm__weight=32, attn_k_norm__weight=32)
QKV_BIAS = vectors(attn_q__bias=256, attn_k__bias=64, attn_v__bias=64)
MLA = {
    "attn_q_a.weight": ((256, D), "q4_k"),
    "attn_q_a_norm.weight": ((256,), "f32"),
    "attn_q_b.weight": ((8 * 48, 256), "q4_k"),
    "attn_kv_a_mqa.weight": ((256 + 16, D), "q4_k"),
    "attn_kv_a_norm.weight": ((256,), "f32"),
    "attn_output.weight": ((D, 8 * 32), "q4_k"),
}
MLA_KEYS = {
    "attention.head_count": 8, "attention.layer_norm_rms_epsilon": 1e-6, "attention.q_lora_rank": 256,
    "attention.kv_lora_rank": 256, "rope.dimension_count": 16,
}  # fmt: skip
SSM = {"ssm.conv_kernel": 4, "ssm.state_size": 32, "ssm.group_count": 2, "ssm.inner_size": 512}
DELTA = {
    "attn_qkv.weight": ((2 * 2 * 32 + 512, D), "q4_k"),
    "attn_gate.weight": ((512, D), "q8_0"),  # another type than the part it is read with
    "ssm_ba.weight": ((32, D), "q8_0"),
    "ssm_conv1d.weight": ((2 * 2 * 32 + 512, 4), "f32"),
    "ssm_out.weight": ((D, 512), "q6_k"),
    **vectors(ssm_dt__bias=16, ssm_a=16, ssm_norm__weight=32),
}
MAMBA2 = {
    "ssm_in.weight": ((2 * 512 + 2 * 2 * 32 + 16, D), "q4_k"),
    "ssm_conv1d.weight": ((512 + 2 * 2 * 32, 4), "f32"),
    "ssm_conv1d.bias": ((512 + 2 * 2 * 32,), "f32"),
    "ssm_out.weight": ((D, 512), "q6_k"),
    **vectors(ssm_dt__bias=16),
    "ssm_a": ((16, 1), "f32"),
    "ssm_d": ((16, 1), "f32"),
    "ssm_norm.weight": ((2, 256), "f32"),
}

CASES = {
    "llama, all q4_k": Case("llama", GQA, [LLAMA] * 4),
    "llama as q4_k_m mixes it": Case(
        "llama", GQA, [PRE | heads(8, 2, 32, v=t) | gated(512, down=t) for t in ("q6_k", "q4_k", "q4_k", "q6_k")]
    ),
    "llama, tied, with frequencies": Case(
        "llama", GQA, [LLAMA] * 2, tied=True, table="q6_k", also={"rope_freqs.weight": ((16,), "f32")}
    ),
    "llama in bf16": Case("llama", GQA, [PRE | heads(8, 2, 32, "bf16") | gated(512, "bf16")] * 2, table="bf16"),
    "mixtral": Case("llama", GQA | MOE, [PRE | heads(8, 2, 32) | experts(8, 512)] * 2),
    "mixtral of early 2024": Case(
        "llama",
        GQA | MOE,
        [
            PRE
            | heads(8, 2, 32)
            | {"ffn_gate_inp.weight": ((8, D), "f16")}
            | {
                f"ffn_{p}.{e}.weight": ((512, D) if p != "down" else (D, 512), "q5_k")
                for e in range(8)
                for p in ("gate", "up", "down")
            }
        ]
        * 2,
    ),
    "qwen2": Case("qwen2", GQA, [LLAMA | QKV_BIAS] * 3),
    "qwen3, heads wider than D/N": Case(
        "qwen3",
        GQA | {"attention.key_length": 64, "attention.value_length": 64},
        [PRE | heads(8, 2, 64) | gated(512) | vectors(attn_q_norm__weight=64, attn_k_norm__weight=64)] * 3,
    ),
    "qwen2moe": Case(
        "qwen2moe",
        GQA | MOE,
        [
            LLAMA | QKV_BIAS,
            *[PRE | heads(8, 2, 32) | QKV_BIAS | experts(8, 256) | shared(512) | vectors(ffn_gate_inp_shexp__weight=D)]
            * 2,
        ],
    ),
    "qwen3moe": Case("qwen3moe", GQA | MOE, [PRE | heads(8, 2, 32) | QK | experts(8, 256, "iq4_xs", down="q5_k")] * 3),
    "gemma2": Case(
        "gemma2",
        GQA | {"attention.sliding_window": 128},
        [LLAMA | norms("post_attention_norm", "post_ffw_norm")] * 4,
        tied=True,
    ),
    "gemma3": Case(
        "gemma3",
        GQA | {"attention.sliding_window": 128},
        [LLAMA | QK | norms("post_attention_norm", "post_ffw_norm")] * 8,
        tied=True,
    ),
    "phi3, fused": Case(
        "phi3",
        GQA | {"attention.sliding_window": 2047},
        [
            PRE
            | {
                "attn_qkv.weight": ((384, D), "q5_k"),
                "attn_output.weight": ((D, 256), "q4_k"),
                "ffn_up.weight": ((1024, D), "q4_k"),
                "ffn_down.weight": ((D, 512), "q6_k"),
            }
        ]
        * 2,
        also={"rope_factors_long.weight": ((16,), "f32")},
    ),
    "deepseek2, first files": Case(
        "deepseek2",
        MLA_KEYS | MOE | {"attention.key_length": 48, "attention.value_length": 32, "leading_dense_block_count": 1},
        [PRE | MLA | {"attn_kv_b.weight": ((8 * 64, 256), "q4_k")} | gated(512)]
        + [
            PRE
            | MLA
            | {"attn_kv_b.weight": ((8 * 64, 256), "q4_k")}
            | experts(8, 256)
            | shared(256)
            | vectors(exp_probs_b__bias=8)
        ]
        * 2,
    ),
    "deepseek2, absorbed": Case(
        "deepseek2",
        MLA_KEYS
        | MOE
        | {
            "attention.key_length": 272,
            "attention.value_length": 256,
            "attention.head_count_kv": 1,
            "attention.key_length_mla": 48,
            "attention.value_length_mla": 32,
        },
        [
            PRE
            | MLA
            | {"attn_k_b.weight": ((8, 256, 32), "q8_0"), "attn_v_b.weight": ((8, 32, 256), "q4_k")}
            | gated(512)
        ]
        * 2,
    ),
    "gpt-oss": Case(
        "gpt-oss",
        GQA | MOE | {"attention.sliding_window": 128},
        [
            norms("attn_norm", "post_attention_norm")
            | heads(8, 2, 32, "q8_0")
            | QKV_BIAS
            | experts(8, 256, "mxfp4")
            | vectors(attn_output__bias=D, attn_sinks__weight=8, ffn_gate_inp__bias=8)
            | {
                "ffn_gate_exps.bias": ((8, 256), "f32"),
                "ffn_up_exps.bias": ((8, 256), "f32"),
                "ffn_down_exps.bias": ((8, D), "f32"),
            }
        ]
        * 4,
        table="q8_0",
    ),
    "falcon with two norms": Case(
        "falcon",
        MHA | {"attention.head_count_kv": 2},
        [
            norms("attn_norm", "attn_norm_2", bias=True)
            | {
                "attn_qkv.weight": ((384, D), "q4_0"),
                "attn_output.weight": ((D, 256), "q4_0"),
                "ffn_up.weight": ((1024, D), "q4_0"),
                "ffn_down.weight": ((D, 1024), "q4_1"),
            }
        ]
        * 2,
        bias=True,
    ),
    "starcoder2": Case(
        "starcoder2",
        MHA | {"attention.head_count_kv": 2, "attention.sliding_window": 4096},
        [
            norms("attn_norm", "ffn_norm", bias=True)
            | heads(8, 2, 32)
            | QKV_BIAS
            | {"ffn_up.weight": ((1024, D), "q4_k"), "ffn_down.weight": ((D, 1024), "q6_k")}
            | vectors(attn_output__bias=D, ffn_up__bias=1024, ffn_down__bias=D)
        ]
        * 2,
        bias=True,
        tied=True,
    ),
    "stablelm with a norm a head": Case(
        "stablelm",
        MHA | {"attention.head_count_kv": 2},
        [
            norms("attn_norm", bias=True)
            | heads(8, 2, 32)
            | gated(512)
            | {"attn_q_norm.weight": ((8, 32), "f32"), "attn_k_norm.weight": ((2, 32), "f32")}
        ]
        * 2,
        bias=True,
    ),
    "glm4": Case(
        "glm4",
        GQA,
        [
            PRE
            | norms("post_attention_norm", "post_ffw_norm")
            | heads(8, 2, 32)
            | QKV_BIAS
            | {"ffn_up.weight": ((1024, D), "q4_k"), "ffn_down.weight": ((D, 512), "q6_k")}
        ]
        * 2,
    ),
    "command-r": Case(
        "command-r", MHA, [norms("attn_norm") | heads(8, 8, 32) | gated(512)] * 2, tied=True, table="q6_k"
    ),
    "olmo2": Case(
        "olmo2",
        GQA,
        [
            norms("post_attention_norm", "post_ffw_norm")
            | heads(8, 2, 32)
            | gated(512)
            | vectors(attn_q_norm__weight=256, attn_k_norm__weight=64)
        ]
        * 2,
    ),
    "nemotron_h": Case(
        "nemotron_h",
        {
            "attention.head_count": [0, 8, 0],
            "attention.head_count_kv": [0, 2, 0],
            "ssm.time_step_rank": 16,
            **SSM,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "attention.key_length": 32,
            "attention.value_length": 32,
        },
        [
            norms("attn_norm") | MAMBA2,
            norms("attn_norm") | heads(8, 2, 32),
            norms("attn_norm") | {"ffn_up.weight": ((512, D), "q4_k"), "ffn_down.weight": ((D, 512), "q4_k")},
        ],
    ),
    "qwen3next": Case(
        "qwen3next",
        GQA | MOE | SSM | {"ssm.time_step_rank": 16, "attention.key_length": 32, "attention.value_length": 32},
        [
            norms("attn_norm", "post_attention_norm")
            | DELTA
            | experts(8, 256)
            | shared(256)
            | vectors(ffn_gate_inp_shexp__weight=D)
        ]
        * 3
        + [
            norms("attn_norm", "post_attention_norm")
            | heads(8, 2, 32)
            | QK
            | {"attn_q.weight": ((512, D), "q4_k")}
            | experts(8, 256)
            | shared(256)
            | vectors(ffn_gate_inp_shexp__weight=D)
        ],
    ),
}


def bytes_of(model: Model) -> float:
    """Bytes by the record: each matrix in the format of its role, biases and vectors in that of vectors."""

    def of(m: Matrix, *levels: Mapping[str, str]) -> float:
        return m.n_weights * stored_as(m.role, *levels, kept=model.dtype)[1] / 8

    layers = model.layer_kinds()
    inside = sum(n * of(m, layer.formats, model.formats) for n, layer in layers for m in layer.matrices(model.d_model))
    biases = sum(n * m.n_biases for n, layer in layers for m in layer.matrices(model.d_model))
    assert model.head is not None
    tables = of(model.embedding_matrix, model.formats)
    head = 0.0 if model.head.tied else of(model.head_matrix, model.formats)
    return inside + tables + head + (model.n_vector_params + biases) * format_named(model.formats["vectors"]).bits / 8


@pytest.mark.parametrize("name", CASES)
def test_a_file_is_read_to_the_parameter_and_to_the_byte(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    model = read_gguf(case.write(tmp_path))
    tensors = {n: t for n, t in case.tensors().items() if not n.endswith(NO_PARAMETERS)}
    assert model.n_params == sum(math.prod(dims) for dims, _ in tensors.values())
    header = read_header(tmp_path / f"{case.arch}.gguf")
    assert round(bytes_of(model)) == sum(header.tensors[n].n_bytes for n in tensors)
    assert model.n_layers == len(case.blocks)
    assert (model.d_model, model.vocab_size, model.max_context_tokens) == (D, V, 4096)
    assert model.head is not None
    assert model.head.tied is case.tied


def read(case: str, folder: Path) -> Model:
    return read_gguf(CASES[case].write(folder))


def test_layers_differ_where_their_types_do(tmp_path: Path) -> None:
    """Half of the value and down matrices of a q4_k_m file are q6_k, here those of the first and the last block."""
    model = read("llama as q4_k_m mixes it", tmp_path)
    kinds = model.layer_kinds()
    assert sorted(n for n, _ in kinds) == [2, 2]
    for n_blocks, layer in kinds:
        assert n_blocks == 2
        assert stored_as("v", layer.formats, model.formats, kept="fp16")[0].name in ("q4_k", "q6_k")
        assert stored_as("q", layer.formats, model.formats, kept="fp16")[1] == 4.5
    assert {stored_as("down", layer.formats, model.formats, kept="fp16")[0].name for _, layer in kinds} == {
        "q4_k",
        "q6_k",
    }
    assert (model.formats["embedding"], model.formats["head"], model.formats["vectors"]) == ("q4_k", "q6_k", "fp32")


def test_a_tied_file_has_one_table(tmp_path: Path) -> None:
    model = read("llama, tied, with frequencies", tmp_path)
    assert model.formats["embedding"] == model.formats["head"] == "q6_k"
    assert any("rope_freqs.weight" in line and "16 elements" in line for line in model.assumed)


@pytest.mark.parametrize(("case", "dtype"), [("llama, all q4_k", "fp16"), ("llama in bf16", "bf16")])
def test_ggml_computes_in_fp16_unless_the_file_is_in_bf16(case: str, dtype: str, tmp_path: Path) -> None:
    assert read(case, tmp_path).dtype == dtype


def mixers(model: Model) -> list[Any]:
    return [layer.mixer for group in model.layers for _ in range(group.repeat) for layer in group.layers]


@pytest.mark.parametrize(
    ("case", "windows"),
    [
        ("gemma2", [128, None] * 2),  # every other block sees all
        ("gemma3", [128] * 5 + [None] + [128] * 2),  # every sixth
        ("gpt-oss", [128, None] * 2),
        ("phi3, fused", [2047] * 2),
        ("olmo2", [None] * 2),
        ("qwen3moe", [None] * 3),
    ],
)
def test_windows_are_as_the_architecture_has_them(case: str, windows: list[int | None], tmp_path: Path) -> None:
    assert [m.window for m in mixers(read(case, tmp_path))] == windows


def test_windows_are_as_the_file_marks_them(tmp_path: Path) -> None:
    marks = {"attention.sliding_window": 64, "attention.sliding_window_pattern": [True, False, False, True]}
    path = Case("gemma3", GQA | marks, CASES["gemma3"].blocks[:4], tied=True).write(tmp_path)
    assert [m.window for m in mixers(read_gguf(path))] == [64, None, None, 64]


def test_heads_and_their_biases_come_out_of_the_tensors(tmp_path: Path) -> None:
    gpt = mixers(read("gpt-oss", tmp_path))[0]
    assert gpt == Attention(n_heads=8, n_kv_heads=2, d_head=32, window=128, qkv_bias=True, out_bias=True, sinks=True)
    qwen = mixers(read("qwen3, heads wider than D/N", tmp_path))[0]
    assert qwen == Attention(n_heads=8, n_kv_heads=2, d_head=64, qk_norm="head")
    olmo = mixers(read("olmo2", tmp_path))[0]
    assert olmo == Attention(n_heads=8, n_kv_heads=2, d_head=32, qk_norm="full")
    assert mixers(read("qwen3next", tmp_path))[3].gated


@pytest.mark.parametrize("case", ["deepseek2, first files", "deepseek2, absorbed"])
def test_latent_attention_is_the_same_in_both_layouts(case: str, tmp_path: Path) -> None:
    expected = Latent(n_heads=8, d_latent=256, d_rope=16, d_nope=32, d_value=32, d_q_latent=256)
    assert set(mixers(read(case, tmp_path))) == {expected}


def test_recurrent_blocks_keep_their_state(tmp_path: Path) -> None:
    assert mixers(read("nemotron_h", tmp_path))[0] == Mamba2(n_heads=16, d_head=32, n_groups=2, d_state=32, d_conv=4)
    expected = Delta(n_key_heads=2, d_key=32, n_value_heads=16, d_value=32, d_conv=4)
    assert mixers(read("qwen3next", tmp_path))[:3] == [expected] * 3


def test_a_role_made_of_two_types_has_the_bits_of_both(tmp_path: Path) -> None:
    """qkv, (640, 256) in q4_k, and the gate, (512, 256) in q8_0: (640 · 4.5 + 512 · 8.5) / 1152 bits."""
    model = read("qwen3next", tmp_path)
    assert stored_as("in", model.formats, kept="fp16")[1] == pytest.approx((640 * 4.5 + 512 * 8.5) / 1152, rel=1e-12)


def test_experts_and_what_is_shared(tmp_path: Path) -> None:
    model = read("qwen2moe", tmp_path)
    ffns = [layer.ffn for _, layer in model.layer_kinds()]
    assert ffns == [
        Dense(d_ff=512),
        Moe(n_experts=8, n_active_experts=2, d_ff=256, d_shared=512, shared_gate=True),
    ]
    routed = 2 * 8 * 3 * 256 * D
    assert model.n_active_params == model.n_params - routed + routed * 2 // 8


def test_fused_gate_and_up_are_two_matrices(tmp_path: Path) -> None:
    model = read("phi3, fused", tmp_path)
    assert model.layer_kinds()[0][1].ffn == Dense(d_ff=512, gated=True)
    assert {model.formats[role] for role in ("q", "k", "v")} == {"q5_k"}


def test_blocks_that_guess_further_tokens_are_left_out_on_record(tmp_path: Path) -> None:
    block = PRE | heads(8, 2, 32) | gated(512)
    guess = block | {"nextn.eh_proj.weight": ((D, 2 * D), "q4_k"), "nextn.enorm.weight": ((D,), "f32")}
    path = Case("glm4moe", GQA | {"nextn_predict_layers": 1}, [block, block, guess]).write(tmp_path)
    model = read_gguf(path)
    assert model.n_layers == 2
    n_guess = sum(math.prod(dims) for dims, _ in guess.values())
    assert any(f"{n_guess:,} elements" in line for line in model.assumed)


@pytest.mark.parametrize("part", [1, 3])
def test_a_split_model_is_read_whole_from_any_of_its_files(part: int, tmp_path: Path) -> None:
    whole = read("llama, all q4_k", tmp_path)
    case = CASES["llama, all q4_k"]
    write(tmp_path / "split.gguf", "llama", GQA, case.tensors(), split_max_tensors=16)
    files = sorted(p.name for p in tmp_path.glob("split-*"))
    assert files == [f"split-{i:05}-of-00003.gguf" for i in (1, 2, 3)]
    model = read_gguf(tmp_path / files[part - 1])
    assert (model.n_params, model.layers, model.formats) == (whole.n_params, whole.layers, whole.formats)
    (tmp_path / files[1]).unlink()
    with pytest.raises(SpecError, match=r"split-00002-of-00003\.gguf"):
        read_gguf(tmp_path / files[0])


def test_another_architecture_is_refused_by_name(tmp_path: Path) -> None:
    path = Case("rwkv6", GQA, [LLAMA]).write(tmp_path)
    with pytest.raises(Unsupported, match='architecture "rwkv6" is not read'):
        read_gguf(path)


def test_a_tensor_nobody_knows_is_refused_by_name(tmp_path: Path) -> None:
    path = Case("llama", GQA, [LLAMA | {"attn_lora_a.weight": ((32, D), "f16")}]).write(tmp_path)
    with pytest.raises(Unsupported, match=r"blk\.0\.attn_lora_a\.weight"):
        read_gguf(path)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"attention.head_count": 7}, "blk.0.attn_output.weight: rows of 256; expected 252"),
        ({"attention.head_count": 8, "attention.head_count_kv": 3}, "n_kv_heads: 3 does not divide"),
        ({"attention.head_count": 0}, "attention.head_count"),
        ({"attention.head_count_kv": 4}, "block 0: k: its tensors hold 16,384 elements, the metadata describe 32,768"),
        ({"attention.key_length": 64, "attention.value_length": 32}, "block 0: q: its tensors hold 65,536 elements"),
        ({"embedding_length": 128}, "token_embd.weight"),
        ({"embedding_length": 2**31}, "embedding_length"),
        ({"block_count": 3}, "blk.3"),
        ({"block_count": 5}, "blk.4"),
        ({"block_count": 2**30}, "block_count"),
        ({"context_length": 0}, "context_length"),
        ({"attention.head_count": [8, 8]}, "attention.head_count"),
        ({"attention.sliding_window": 64, "attention.sliding_window_pattern": [True]}, "sliding_window_pattern"),
        ({"expert_used_count": 2.5}, None),
    ],
)
def test_metadata_that_contradict_the_tensors_are_refused(
    keys: dict[str, Any], words: str | None, tmp_path: Path
) -> None:
    path = Case("llama", GQA | {"block_count": 4} | keys, [LLAMA] * 4).write(tmp_path)
    if words is None:
        read_gguf(path)
        return
    with pytest.raises(SpecError) as caught:
        read_gguf(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


# A file of 2 KB: one block, 32 wide.
def small(folder: Path) -> bytes:
    tensors: Shapes = {
        "token_embd.weight": ((40, 32), "q8_0"),
        "output_norm.weight": ((32,), "f32"),
        **{f"blk.0.{n}_norm.weight": ((32,), "f32") for n in ("attn", "ffn")},
        **{f"blk.0.{n}.weight": ((32, 32), "q8_0") for n in ("attn_q", "attn_k", "attn_v", "attn_output")},
        **{f"blk.0.ffn_{n}.weight": ((32, 32), "q8_0") for n in ("gate", "up", "down")},
    }
    keys = {
        "attention.head_count": 2,
        "embedding_length": 32,
        "block_count": 1,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    return write(folder / "small.gguf", "llama", keys, tensors, n_tokens=4).read_bytes()


def refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    began = time.perf_counter()
    with pytest.raises((SpecError, Unsupported)):
        read_gguf(path)
    assert time.perf_counter() - began < 2


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    data = small(tmp_path)
    assert read_gguf(tmp_path / "small.gguf").n_params == 40 * 32 + 7 * 32 * 32 + 3 * 32
    last = len(data) - 32  # what pads the last tensor may be missing
    for n in [*range(0, last, 64), last]:
        refused(tmp_path / "cut.gguf", data[:n])


def test_numbers_that_lie_about_the_file_are_refused(tmp_path: Path) -> None:
    """Any eight aligned bytes of the header made huge: it may still be read where they are a value or a name, but never
    more than the file holds, in bounded time and without another error."""
    data = small(tmp_path)
    path = tmp_path / "lie.gguf"
    began = time.perf_counter()
    header = len(data) - sum(t.n_bytes for t in read_header(tmp_path / "small.gguf").tensors.values())
    for at in range(0, header, 4):
        for lie in (2**64 - 1, 2**40, 0):
            path.write_bytes(data[:at] + struct.pack("<Q", lie) + data[at + 8 :])
            with contextlib.suppress(SpecError, Unsupported):
                read_gguf(path)
    assert time.perf_counter() - began < 60


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GGUF",
        b"GGML" + bytes(100),
        b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 4, 0, 0),
        b"GGUF" + struct.pack(">IQQ", 3, 0, 0),  # big-endian
        b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**63) + b"key",
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q3sIIQ", 3, b"key", 9, 8, 2**61),  # a list of texts
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q3sIIQ", 3, b"key", 9, 4, 2**61),  # of numbers
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q3sIIQ", 3, b"key", 9, 9, 1),  # of lists
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q3sI", 3, b"\xff\xfe\xfd", 4) + bytes(4),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q3sI", 3, b"key", 77) + bytes(64),
        bytes(4096),
    ],
)  # fmt: skip
def test_what_is_no_gguf_file_is_refused(data: bytes, tmp_path: Path) -> None:
    refused(tmp_path / "bad.gguf", data)


def test_a_big_endian_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "big.gguf", "llama", GQA, CASES["llama, all q4_k"].tensors(), endianess=gguf.GGUFEndian.BIG)
    with pytest.raises(SpecError, match="big-endian"):
        read_gguf(tmp_path / "big.gguf")


@pytest.mark.parametrize("name", ["nowhere.gguf", ".", "a-00001-of-00000.gguf", "a-00002-of-00001.gguf"])
def test_what_is_not_there_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        read_gguf(tmp_path / name)


def test_a_large_vocabulary_is_passed_over_quickly(tmp_path: Path) -> None:
    """Half a million merges and tokens, as the largest tokenizers have."""
    path = tmp_path / "vocabulary.gguf"
    texts = b"".join(struct.pack("<Q8s", 8, b"a token.") for _ in range(500_000))
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q3sIIQ", 3, b"key", 9, 8, 500_000) + texts)
    began = time.perf_counter()
    assert read_header(path).metadata == {"key": "a list of 500000 texts"}
    assert time.perf_counter() - began < 5


def test_without_the_gguf_package_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(tmp_path)
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(Unsupported, match=r"pip install 'llm-roofline\[gguf\]'"):
        read_gguf(tmp_path / "small.gguf")


def test_every_tensor_type_of_the_gguf_package_has_its_bits() -> None:
    for kind, (n_elements, n_bytes) in gguf.GGML_QUANT_SIZES.items():
        # Q8_1 is never in a file; ggml's block_q8_1 has two 16-bit numbers, where the package still counts two of 32
        if kind.name not in ("I8", "I16", "I32", "I64", "F64", "Q8_1"):
            assert format_named(kind.name).bits == 8 * n_bytes / n_elements, kind.name
