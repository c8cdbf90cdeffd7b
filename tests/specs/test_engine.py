"""Engines as data: what every shipped file must be, defaults checked by hand, and errors that say what to write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import SpecError, UnknownName
from roofline.specs import catalog
from roofline.specs.engine import IDEAL_ENGINE, Engine, Tier

IDS = (
    "exllamav2", "gpt-fast", "ideal", "llama.cpp", "llama.cpp-2024", "mlc-llm", "mlx", "sglang", "trtllm", "trtllm-2024",
    "vllm", "vllm-0.7", "vllm-2023", "vllm-ascend",
)  # fmt: skip
MIB, GIB = 2**20, 2**30
SMALL: dict[str, Any] = {
    "id": "small",
    "name": "Small",
    "version": "1",
    "memory": {"fraction_of": "total", "fraction": 0.9},
    "pages": {"tokens": 16, "windows": "window"},
}


def small(**changes: Any) -> Engine:
    return Engine.read(SMALL | changes, where="small.yaml")


# The files


def test_all_are_there_and_named_by_their_id() -> None:
    assert catalog.engine_ids() == IDS
    assert tuple(catalog.engine(name).id for name in IDS) == IDS


@pytest.mark.parametrize("name", IDS)
def test_every_value_has_a_source(name: str) -> None:
    engine = catalog.engine(name)
    assert engine.unsourced() == ()
    assert all(text.strip() for text in engine.sources.values())


def test_names_are_lower_case_and_lead_to_one_engine() -> None:
    names = [n for i in IDS for n in (i, *catalog.engine(i).aliases)]
    assert names == sorted({n.lower() for n in names}, key=names.index)
    assert {catalog.engine(n).id for n in ("tensorrt-llm", "llamacpp", "mlx-lm")} == {"trtllm", "llama.cpp", "mlx"}


@pytest.mark.parametrize("name", IDS)
def test_keys_stand_in_the_order_of_the_record(name: str) -> None:
    text = (catalog.shipped("engines") / f"{name}.yaml").read_text(encoding="utf-8")
    order = list(Engine.model_fields)
    order.insert(order.index("version") + 1, "like")  # what it takes over, the catalogue's own
    keys = [order.index(key) for key in re.findall(r"^(\w+):", text, re.M)]
    assert keys == sorted(keys)


def test_the_ideal_engine_in_the_code_is_the_one_in_the_file() -> None:
    assert catalog.engine("ideal") == IDEAL_ENGINE


def test_the_ideal_engine_takes_nothing_and_rounds_nothing() -> None:
    ideal = catalog.engine("ideal")
    assert ideal.fraction(80 * GIB) == 1.0
    assert ideal.pages.tokens == 1
    assert (ideal.context_bytes(n_chips=8), ideal.memory.graph_bytes, ideal.visible_bytes(80e9)) == (0.0, 0.0, 80e9)


def test_your_own_engine_comes_first(tmp_path: Path) -> None:
    (tmp_path / "engines").mkdir()
    shipped = (catalog.shipped("engines") / "vllm.yaml").read_text(encoding="utf-8")
    (tmp_path / "engines" / "vllm.yaml").write_text(
        shipped.replace("fraction: 0.92", "fraction: 0.5"), encoding="utf-8"
    )
    assert catalog.engine("vllm", search=[tmp_path]).fraction(80 * GIB) == 0.5
    assert catalog.engine(tmp_path / "engines" / "vllm.yaml").fraction(80 * GIB) == 0.5
    assert catalog.engine_ids(search=[tmp_path]) == IDS


# Defaults


def test_vllm_takes_092_of_all_of_it_and_schedules_by_size() -> None:
    """vLLM 0.33.0: config/cache.py; arg_utils.get_batch_defaults: an A100 gets the least whatever its size."""
    vllm = catalog.engine("vllm")
    assert (vllm.memory.fraction_of, vllm.fraction(24 * GIB), vllm.fraction(180 * GIB)) == ("total", 0.92, 0.92)
    tiers = [vllm.tier(size * GIB, chip="h100-sxm-80gb") for size in (24, 69.9, 70, 159, 160)]
    assert [t.batch_tokens for t in tiers] == [2048, 2048, 8192, 8192, 16384]
    assert [t.max_seqs for t in tiers] == [256, 256, 1024, 1024, 1024]
    for chip in ("a100-sxm-80gb", "A100-PCIE-80GB", "dgx-spark-gb10"):
        assert vllm.tier(80 * GIB, chip=chip).batch_tokens == 2048


@pytest.mark.parametrize(("gib", "mib"), [(24, 430), (79.6484375, 469)])  # 24,576 and 81,559 MiB
def test_cuda_sees_less_than_the_driver_prints(gib: float, mib: float) -> None:
    """23.58 GiB of an RTX 3090 (vllm-project/vllm#10517), 79.19 of an H100 (llm-d-planner): within 20 MiB."""
    assert gib * GIB - catalog.engine("vllm").visible_bytes(gib * GIB) == pytest.approx(mib * MIB, abs=21 * MIB)


@pytest.mark.parametrize(
    ("gib", "wired"),
    [
        (16, 11.84 * GIB),  # AlexsJones/llmfit#754
        (24, 19_069.67e6),  # what llama.cpp and MLX print as recommendedMaxWorkingSetSize, in MB
        (32, 26_800.60e6),
        (36, 30_150.67e6),
        (48, 40_200.90e6),
        (64, 55_662.79e6),
        (128, 115_448.73e6),
        (256, 223_338_299_392),
        (512, 498_216_206_336),
    ],
)
def test_what_a_mac_lets_its_gpu_wire(gib: int, wired: float) -> None:
    assert catalog.engine("mlx").fraction(gib * GIB) * gib * GIB == pytest.approx(wired, rel=1e-5)


def test_a_memory_above_the_last_size_goes_with_it() -> None:
    assert catalog.engine("mlx").fraction(1024 * GIB) == 0.90625


def test_sglang_counts_its_fraction_from_what_it_leaves_outside() -> None:
    """512 + 1.5·8192 + 2·256 + 8·58 + 128 = 13,904 MiB of an H100's 81,559; each chip more of a replica takes 128."""
    sglang = catalog.engine("sglang")
    assert sglang.fraction(81_559 * MIB) == round(1 - 13_904 / 81_559, 3) == 0.83
    assert sglang.fraction(81_559 * MIB, n_chips=2) == round(1 - 14_032 / 81_559, 3)


def test_sglang_on_mi355x_is_0911() -> None:
    """sgl-project/sglang#18263 prints mem_fraction_static 0.911: 512 + 1.5·16384 + 2·512 + 128 = 26,240 of 294,912 MiB."""
    headroom = catalog.engine("sglang").memory.headroom
    assert headroom is not None
    left = headroom.bytes_of(294_912 * MIB, tier=Tier(batch_tokens=16384, max_seqs=2048, graph_seqs=512))
    assert left == 26_240 * MIB
    assert round(1 - left / (294_912 * MIB), 3) == 0.911


def test_a_large_chip_leaves_at_least_ten_gib() -> None:
    headroom = catalog.engine("sglang").memory.headroom
    assert headroom is not None
    least = Tier(batch_tokens=1, max_seqs=1)
    assert [headroom.bytes_of(size * GIB, tier=least) / GIB for size in (61, 60)] == [10.0, (512 + 1.5 + 128) / 1024]


def test_collectives_take_memory_of_their_own() -> None:
    vllm = catalog.engine("vllm")
    assert [vllm.context_bytes(n_chips=n) / GIB for n in (1, 2, 8)] == [0.25, 2.1, 2.1]
    alone = small(memory={"fraction_of": "total", "fraction": 0.9, "context": "1 GiB"})
    assert alone.context_bytes(n_chips=8) == GIB


# What is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"memory": {"fraction_of": "total"}}, "one of fraction, shares and headroom"),
        (
            {"memory": {"fraction_of": "wired", "fraction": 0.9, "shares": [{"up_to": "1 GiB", "fraction": 0.5}]}},
            "one of fraction, shares and headroom",
        ),
        (
            {"memory": {"fraction_of": "wired", "shares": [{"up_to": f"{n} GiB", "fraction": 0.5} for n in (2, 1)]}},
            "expected sizes that rise",
        ),
        ({"memory": {"fraction_of": "total", "fraction": 1.1}}, "less than or equal to 1"),
        ({"memory": {"fraction_of": "all", "fraction": 0.9}}, "total"),
        ({"pages": {"tokens": 0, "windows": "window"}}, "greater than or equal to 1"),
        ({"pages": {"tokens": 16}}, "windows"),
        ({"pages": {"tokens": 16, "windows": "window", "blocks": 3}}, "blocks"),
        ({"sources": {"memory.fractoin": "somewhere"}}, "memory.fractoin names no value of this file.*memory.fraction"),
        ({"priors": ["graphs"]}, "priors: graphs names no value"),
        ({"scheduler": [{"below": "70 GiB", "batch_tokens": 1, "max_seqs": 1}]}, "a last one without"),
        ({"scheduler": [{"batch_tokens": 1, "max_seqs": 1}, {"batch_tokens": 2, "max_seqs": 1}]}, "a last one without"),
        (
            {
                "scheduler": [
                    {"below": "2 GiB", "batch_tokens": 1, "max_seqs": 1},
                    {"below": "1 GiB", "batch_tokens": 1, "max_seqs": 1},
                    {"batch_tokens": 1, "max_seqs": 1},
                ]
            },
            "whose below: rises",
        ),
    ],
)
def test_a_wrong_file_is_told_what_was_expected(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        small(**change)


def test_a_headroom_needs_the_tiers_it_is_counted_from() -> None:
    keys = ("fixed", "per_token", "per_graph_seq", "per_chip", "per_graph", "least", "least_above")
    with pytest.raises(SpecError, match=r"expected tiers, which memory\.headroom is counted from"):
        small(memory={"fraction_of": "static", "headroom": dict.fromkeys(keys, "1 MiB")})


def test_an_engine_without_defaults_says_what_to_give() -> None:
    with pytest.raises(SpecError, match="ideal has no scheduler defaults; give batch_tokens and max_seqs yourself"):
        catalog.engine("ideal").tier(80 * GIB)


def test_a_value_without_a_source_is_found() -> None:
    facts = ("memory.fraction_of", "memory.fraction", "pages.tokens", "pages.windows")
    assert small().unsourced() == facts
    assert small(sources={"memory": "a page"}).unsourced() == facts[2:]


def test_an_unknown_engine_is_told_the_known_ones() -> None:
    with pytest.raises(
        UnknownName, match=r'no engine named "vlm".*vllm.*known: exllamav2, gpt-fast, ideal, llama\.cpp'
    ):
        catalog.engine("vlm")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("like: ../../etc/passwd", r"like: expected an engine of the catalogue, got '../../etc/passwd'"),
        ("like: vlm", "like: expected an engine of the catalogue, got 'vlm'; did you mean vllm"),
        ("like: vllm\nparameters_from: [vlm]", "parameters_from: expected an engine of the catalogue, got 'vlm'"),
    ],
)
def test_an_engine_is_like_one_of_the_catalogue_only(tmp_path: Path, lines: str, said: str) -> None:
    """The message names the file and the key, and holds nothing of another file."""
    path = tmp_path / "mine.yaml"
    path.write_text(f'id: mine\nname: Mine\nversion: "1"\n{lines}\n', encoding="utf-8")
    with pytest.raises(SpecError, match=rf"mine\.yaml: {said}"):
        catalog.engine(path)
