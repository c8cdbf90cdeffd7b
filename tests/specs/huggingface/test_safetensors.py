"""Headers of safetensors files beside a config: what they hold, whether the config describes it, and what they cannot do."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import SpecError
from roofline.specs.ffns import Dense
from roofline.specs.huggingface.safetensors import Stored, mismatch, stored_weights
from roofline.specs.layers import Group, Layer
from roofline.specs.mixers import Attention
from roofline.specs.model import Head, Model, Mtp

SIZES = {"F32": 4, "BF16": 2, "F16": 2, "U8": 1, "I32": 4, "U32": 4, "F8_E4M3": 1, "F4": 0.5}


def write(path: Path, tensors: dict[str, tuple[str, list[int]]], *, header: Any = None, cut: int = 0) -> None:
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in tensors.items():
        n = 1
        for d in shape:
            n *= d
        end = at + int(n * SIZES[dtype])
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries if header is None else header).encode()
    path.write_bytes((struct.pack("<Q", len(text)) + text + bytes(at))[: None if not cut else -cut])


LAYER = Layer(mixer=Attention(n_heads=2, n_kv_heads=2, d_head=32), ffn=Dense(d_ff=128))


def model(**more: Any) -> Model:
    fields: dict[str, Any] = {"dtype": "bf16", "d_model": 64, "vocab_size": 100, "max_context_tokens": 64}
    return Model(id="m", name="m", layers=(Group(repeat=2, layers=(LAYER,)),), **(fields | more))


def weights(dtype: str = "BF16") -> dict[str, tuple[str, list[int]]]:
    """The tensors of that model."""
    found: dict[str, tuple[str, list[int]]] = {
        "model.embed_tokens.weight": (dtype, [100, 64]),
        "lm_head.weight": (dtype, [100, 64]),
        "model.norm.weight": (dtype, [64]),
    }
    for i in range(2):
        lead = f"model.layers.{i}."
        found |= {f"{lead}self_attn.{m}_proj.weight": (dtype, [64, 64]) for m in "qkvo"}
        found |= {f"{lead}mlp.{m}_proj.weight": (dtype, [128, 64]) for m in ("gate", "up")}
        found |= {f"{lead}mlp.down_proj.weight": (dtype, [64, 128])}
        found |= {f"{lead}{n}_layernorm.weight": (dtype, [64]) for n in ("input", "post_attention")}
    return found


N = 2 * 100 * 64 + 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64)


@pytest.mark.parametrize(("dtype", "name", "size"), [("BF16", "bf16", 2), ("F16", "fp16", 2), ("F32", "fp32", 4)])
def test_a_plain_checkpoint_is_counted_to_the_element(dtype: str, name: str, size: int, tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", weights(dtype))
    stored = stored_weights(tmp_path)
    assert stored == Stored(N * size, {dtype: N})
    assert stored.dtype == name
    assert model().n_params == N
    assert mismatch(stored, model()) is None


def test_shards_are_read_together_as_the_index_names_them(tmp_path: Path) -> None:
    items = list(weights().items())
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for name, part in zip(names, (items[:9], items[9:]), strict=True):
        write(tmp_path / name, dict(part))
    write(tmp_path / "consolidated.safetensors", weights())  # another copy, which the index does not name
    weight_map = {key: names[i >= 9] for i, (key, _) in enumerate(items)}
    index = {"metadata": {"total_size": 2 * N}, "weight_map": weight_map}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert stored_weights(tmp_path) == Stored(2 * N, {"BF16": N})
    (tmp_path / names[1]).unlink()
    stored = stored_weights(tmp_path)
    assert stored == Stored(2 * N, {}, complete=False)
    assert stored.dtype is None
    assert mismatch(stored, model()) is None


def test_no_files_and_pointers_of_git_lfs_are_nothing_stored(tmp_path: Path) -> None:
    assert stored_weights(tmp_path) is None
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    assert stored_weights(tmp_path) is None


def test_a_config_of_another_model_is_on_record(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", weights())
    stored = stored_weights(tmp_path)
    assert stored is not None
    other = model(vocab_size=101)
    assert mismatch(stored, other) == (f"model.safetensors: holds {N:,} elements, the config describes {N + 2 * 64:,}")


def test_mtp_buffers_and_a_stored_copy_of_a_tied_head_are_no_mismatch(tmp_path: Path) -> None:
    extra = {
        "model.layers.0.mlp.gate.e_score_correction_bias": ("F32", [8]),
        "model.rotary_emb.inv_freq": ("F32", [16]),
    }
    write(tmp_path / "model.safetensors", weights() | extra)
    stored = stored_weights(tmp_path)
    assert stored is not None
    assert mismatch(stored, model()) is None
    assert mismatch(stored, model(head=Head(tied=True))) is None
    mtp = model(mtp=Mtp(layer=LAYER))
    write(tmp_path / "model.safetensors", weights() | {"mtp": ("BF16", [mtp.n_mtp_params])})
    with_mtp = stored_weights(tmp_path)
    assert with_mtp is not None
    assert mismatch(with_mtp, mtp) is None
    assert mismatch(with_mtp, model()) is not None


def packed(bits: int, group: int, kind: str) -> dict[str, tuple[str, list[int]]]:
    """The same checkpoint with its linear layers packed as GPTQ, ModelOpt's NVFP4 or FP8 in blocks have them."""
    found = {}
    for name, (dtype, shape) in weights().items():
        stem = name.removesuffix(".weight")
        if not name.endswith("_proj.weight"):
            found[name] = (dtype, shape)
        elif kind == "gptq":
            d_out, d_in = shape
            found[f"{stem}.qweight"] = ("I32", [d_in * bits // 32, d_out])
            found[f"{stem}.qzeros"] = ("I32", [d_in // group, d_out * bits // 32])
            found[f"{stem}.scales"] = ("F16", [d_in // group, d_out])
            found[f"{stem}.g_idx"] = ("I32", [d_in])
        elif kind == "nvfp4":
            found[name] = ("U8", [shape[0], shape[1] // 2])
            found |= {
                f"{stem}.weight_scale": ("F8_E4M3", [shape[0], shape[1] // 16]),
                f"{stem}.weight_scale_2": ("F32", []),
            }
        else:
            found[name] = ("F8_E4M3", shape)
            found[f"{name}_scale_inv"] = ("F32", [1, 1])
    return found


@pytest.mark.parametrize(
    ("kind", "bits", "group", "formats"),
    [
        ("gptq", 4, 64, {"*": "gptq-4bit-g64"}),
        ("gptq", 8, 32, {"*": "gptq-8bit-g32"}),
        ("nvfp4", 4, 16, {"*": "nvfp4"}),
        ("fp8", 8, 128, {"*": "fp8-block"}),
    ],
)
def test_packed_weights_are_as_many_as_they_unpack_to(
    kind: str, bits: int, group: int, formats: dict[str, str], tmp_path: Path
) -> None:
    write(tmp_path / "model.safetensors", packed(bits, group, kind))
    stored = stored_weights(tmp_path)
    assert stored is not None
    assert mismatch(stored, model(formats=formats)) is None
    assert mismatch(stored, model(formats=formats, vocab_size=101)) is not None


def small(folder: Path) -> bytes:
    write(folder / "model.safetensors", {"a": ("F32", [4, 4]), "b": ("BF16", [8])})
    return (folder / "model.safetensors").read_bytes()


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    data = small(tmp_path)
    for n in range(len(data)):
        (tmp_path / "model.safetensors").write_bytes(data[:n])
        with pytest.raises(SpecError, match=r"model\.safetensors"):
            stored_weights(tmp_path)


ENTRY = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"a": []},
        {"a": ENTRY | {"dtype": "F99"}},
        {"a": ENTRY | {"dtype": None}},
        {"a": ENTRY | {"shape": [5]}},
        {"a": ENTRY | {"shape": [-4]}},
        {"a": ENTRY | {"shape": [2**60]}},
        {"a": ENTRY | {"shape": [4.0]}},
        {"a": ENTRY | {"shape": [1] * 99}},
        {"a": ENTRY | {"data_offsets": [16, 0]}},
        {"a": ENTRY | {"data_offsets": [0]}},
        {"a": ENTRY | {"data_offsets": [0, 2**70]}},
        {"a": ENTRY, "b": ENTRY},  # one over the other
        {"a": ENTRY, "b": ENTRY | {"data_offsets": [17, 33]}},  # a hole
    ],
)
def test_a_header_that_lies_is_refused(header: Any, tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", {"a": ("F32", [4])}, header=header)
    with pytest.raises(SpecError, match=r"model\.safetensors"):
        stored_weights(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 8,
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"\xff\xff",
        struct.pack("<Q", 100_000) + b"[" * 100_000,
    ],
)
def test_what_is_no_header_is_refused_in_time(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(data)
    began = time.perf_counter()
    with pytest.raises(SpecError, match=r"model\.safetensors"):
        stored_weights(tmp_path)
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(
    "index",
    [
        {},
        {"weight_map": []},
        {"weight_map": {"a": "../../../etc/passwd"}},
        {"weight_map": {"a": "/etc/x.safetensors"}},
        {"weight_map": {"a": "pytorch_model.bin"}},
        {"weight_map": {"a": 3}},
        {"weight_map": {str(i): f"{i}.safetensors" for i in range(1001)}},
    ],
)
def test_an_index_names_files_of_its_own_folder_and_not_too_many(index: Any, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(SpecError, match=r"index\.json"):
        stored_weights(tmp_path)
