"""The shipped chips: what every file must be, facts checked by hand, and bounds that no published measurement beats."""

from __future__ import annotations

import csv
import datetime
import re
from functools import cache
from pathlib import Path

import pytest

from roofline.specs import catalog
from roofline.specs.hardware import Hardware, Link, Peak

REPO = Path(__file__).resolve().parents[2]
SHIPPED = catalog.shipped("hardware")
DATA = REPO / "tests" / "data"
TABLES = REPO.parent / "shared" / "hardware"

IDS = (
    "a10", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb", "a10g", "a40", "a800-sxm-80gb", "ascend-910b2",
    "ascend-910c-die", "b200-sxm-180gb", "b300-sxm", "dgx-spark-gb10", "epyc-9755", "gaudi2", "gaudi3", "gb200",
    "gb300", "gh200-144gb", "gh200-96gb", "h100-nvl-94gb", "h100-pcie-80gb", "h100-sxm-80gb", "h20-3e-141gb",
    "h20-96gb", "h200-sxm-141gb", "h800-sxm-80gb", "inferentia2", "l4", "l40s", "m1-7c", "m1-max", "m1-ultra",
    "m2-max", "m2-ultra", "m3-max", "m3-ultra", "m4", "m4-max", "m5", "m5-max-32c", "m5-max-40c", "m5-pro", "mi250x",
    "mi250x-gcd", "mi300x", "mi325x", "mi355x", "rtx-3070", "rtx-3080", "rtx-3080-ti", "rtx-3090", "rtx-3090-ti",
    "rtx-4000-ada", "rtx-4070-ti", "rtx-4080", "rtx-4090", "rtx-4090-d", "rtx-5000-ada", "rtx-5090", "rtx-6000-ada",
    "rtx-a6000", "rtx-pro-6000-bw", "rtx-pro-6000-bw-server", "rx-7900-xtx", "t4", "tpu-v4", "tpu-v5e", "tpu-v5p",
    "tpu-v6e", "tpu-v7x", "trainium2", "v100-sxm2-32gb", "v100s-pcie-32gb", "xeon-6980p",
)  # fmt: skip
KEY_ORDER = list(Hardware.model_fields)


@cache
def chip(name: str) -> Hardware:
    return catalog.hardware(name)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def matrix(hardware: Hardware) -> dict[str, Peak]:
    return {dtype: peak for dtype, peak in hardware.compute.matrix.items()}


def vector(hardware: Hardware) -> dict[str, float]:
    return {dtype: rate for dtype, rate in hardware.compute.vector.items()}


# what every file must be


def test_the_catalogue_holds_exactly_the_74_chips() -> None:
    assert sorted(p.stem for p in SHIPPED.glob("*.yaml")) == sorted(IDS)
    assert len(IDS) == 74


@pytest.mark.parametrize("name", IDS)
def test_a_file_is_named_by_its_id_and_every_figure_has_a_source(name: str) -> None:
    hardware = chip(name)
    assert hardware.id == name
    assert hardware.unsourced() == ()


@pytest.mark.parametrize("name", IDS)
def test_a_file_keeps_the_key_order_of_the_schema(name: str) -> None:
    data = catalog.load_yaml(SHIPPED / f"{name}.yaml")
    assert list(data) == sorted(data, key=KEY_ORDER.index)
    assert list(data["compute"]) == sorted(data["compute"], key=["matrix", "vector", "runs_as"].index)


@pytest.mark.parametrize("name", IDS)
def test_sources_name_public_works_and_nothing_of_this_machine(name: str) -> None:
    text = (SHIPPED / f"{name}.yaml").read_text(encoding="utf-8")
    assert not re.search(r"/tmp|/work|/home|find_string|fate-oracle|session|achieved_", text)


def test_aliases_are_lower_case_unique_and_distinct_from_ids() -> None:
    aliases = [alias for name in IDS for alias in chip(name).aliases]
    assert aliases == [alias.lower().strip() for alias in aliases]
    assert len(aliases) == len(set(aliases))
    assert not set(aliases) & set(IDS)


@pytest.mark.parametrize("name", IDS)
def test_every_alias_finds_its_chip(name: str) -> None:
    assert [chip(alias).id for alias in chip(name).aliases] == [name] * len(chip(name).aliases)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("h100", "h100-sxm-80gb"),
        ("H100-SXM5", "h100-sxm-80gb"),
        ("h100-nvl", "h100-nvl-94gb"),
        ("h200", "h200-sxm-141gb"),
        ("gh200", "gh200-96gb"),
        ("a100", "a100-sxm-80gb"),
        ("a100-40gb", "a100-sxm-40gb"),
        ("4090", "rtx-4090"),
        ("rtx5090", "rtx-5090"),
        ("b200", "b200-sxm-180gb"),
        ("mi300", "mi300x"),
        ("m5-max", "m5-max-40c"),
        ("m3-ultra-80c", "m3-ultra"),
        ("spark", "dgx-spark-gb10"),
        ("trillium", "tpu-v6e"),
        ("ironwood", "tpu-v7x"),
        ("trn2", "trainium2"),
        ("turin", "epyc-9755"),
    ],
)
def test_what_people_type_finds_what_they_mean(typed: str, meant: str) -> None:
    assert chip(typed).id == meant


@pytest.mark.parametrize("name", IDS)
def test_links_make_sense(name: str) -> None:
    links = chip(name).links
    assert links.host is not None
    if links.scale_up is not None:
        up = links.scale_up
        assert up.domain is not None
        assert up.bytes_per_s is None or (up.pair_bytes_per_s or up.bytes_per_s) <= up.bytes_per_s
        assert up.topology is not None or up.domain == 1


# facts checked by hand


@pytest.mark.parametrize(
    ("name", "dtype", "flops_per_s", "bytes_per_s", "capacity_bytes"),
    [
        ("h100-sxm-80gb", "bf16", 989.4e12, 3.35e12, 81559 * 2**20),  # H100 whitepaper V1.04; nvidia-smi
        ("h100-sxm-80gb", "fp8", 1978.9e12, 3.35e12, 81559 * 2**20),
        ("h200-sxm-141gb", "bf16", 989.4e12, 4.8e12, 143771 * 2**20),  # NVIDIA H200 page; nvidia-smi
        ("a100-sxm-80gb", "fp16", 312e12, 2.039e12, 80 * 2**30),  # A100 whitepaper
        ("a100-sxm-40gb", "int8", 624e12, 1.555e12, 40 * 2**30),
        ("b200-sxm-180gb", "fp4", 9e15, 7.7e12, 183359 * 2**20),  # Blackwell datasheet: 18 PFLOP/s sparse
        ("mi300x", "fp16", 1307.4e12, 5.325e12, 192 * 2**30),  # AMD: 304 CU x 2048 x 2.1 GHz; 8 x 24 GiB
        ("rtx-4090", "fp16", 165.2e12, 1.008e12, 24564 * 2**20),  # RTX Blackwell whitepaper, appendix A
        ("rtx-5090", "bf16", 209.5e12, 1.792e12, 32607 * 2**20),
        ("tpu-v5e", "bf16", 197e12, 819e9, 16 * 2**30),  # Google Cloud TPU v5e page
        ("tpu-v5p", "int8", 918e12, 2.765e12, 95 * 2**30),  # Google Cloud TPU table
        ("m2-ultra", "fp16", 27.2e12, 819.2e9, 192 * 2**30),  # 76 cores x 256 x 1.398 GHz
        ("t4", "int8", 130e12, 320e9, 15360 * 2**20),  # T4 datasheet; 256 bit x 10 Gbit/s
        ("gaudi3", "bf16", 1677.7e12, 3.67e12, 128 * 2**30),  # 8 MME x 131072 x 1.6 GHz
        ("trainium2", "fp8", 1299e12, 2.9e12, 96 * 2**30),  # AWS Neuron documentation
    ],
)
def test_known_chips_have_their_published_figures(
    name: str, dtype: str, flops_per_s: float, bytes_per_s: float, capacity_bytes: int
) -> None:
    assert chip(name).peak_flops_per_s(dtype) == flops_per_s
    assert chip(name).hbm_bytes_per_s == bytes_per_s
    assert chip(name).memory_bytes == capacity_bytes


def test_the_ridge_of_an_h100_is_295_flop_per_byte() -> None:
    assert chip("h100").ridge("bf16") == pytest.approx(989.4 / 3.35)  # 295.3
    assert chip("h100").bound_flops_per_s("bf16") == 989.4e12  # no measurement exceeds it, so nothing loosens the floor


def test_geforce_accumulates_in_fp32_at_half_rate() -> None:
    fp16 = matrix(chip("rtx-4090"))["fp16"]
    assert (fp16.peak_flops_per_s, fp16.peak_acc16_flops_per_s, fp16.accumulate) == (165.2e12, 330.3e12, "fp32")


@pytest.mark.parametrize(
    ("name", "n_units", "flop_per_clk", "clock_hz"),
    [
        ("rtx-4090", 128, 1024, 3.12e9),  # Ada: 512 a SM and clock, 1024 with fp16 accumulation
        ("rtx-5090", 170, 1024, 3.12e9),
        ("rtx-3090", 82, 1024, 2.1e9),
        ("h100-nvl-94gb", 132, 4096, 1.785e9),
        ("gb200", 152, 8192, 2.062e9),
    ],
)
def test_a_bound_covers_the_higher_clock_and_16_bit_accumulation_together(
    name: str, n_units: int, flop_per_clk: int, clock_hz: float
) -> None:
    product = n_units * flop_per_clk * clock_hz
    assert product <= chip(name).bound_flops_per_s("fp16") <= 1.001 * product


def test_matrix_units_and_vector_units_of_fp32_are_told_apart() -> None:
    assert matrix(chip("mi250x"))["fp32"].peak_flops_per_s == 95.7e12  # AMD MI250X page: matrix 95.7, vector 47.9
    assert vector(chip("mi250x"))["fp32"] == 47.9e12
    assert vector(chip("trainium2"))["fp32"] == 8e12  # eight vector engines of 1.0
    assert "fp32" not in matrix(chip("h100"))
    assert vector(chip("tpu-v6e")) == {}  # not published


# bfloat16: who has it, and what the others run it as


@pytest.mark.parametrize("name", ["t4", "v100-sxm2-32gb", "v100s-pcie-32gb"])
def test_turing_and_volta_run_bf16_as_fp16(name: str) -> None:
    assert not chip(name).has("bf16")
    assert chip(name).compute.runs_as == {"bf16": "fp16"}


@pytest.mark.parametrize("name", ["m1-7c", "m1-max", "m1-ultra", "m2-max", "m2-ultra"])
def test_apple_m1_and_m2_widen_bf16_to_fp32(name: str) -> None:
    assert not chip(name).has("bf16")
    assert chip(name).compute.runs_as == {"bf16": "fp32"}


@pytest.mark.parametrize(
    "name",
    [
        "m3-max",
        "m3-ultra",
        "m4",
        "m4-max",
        "m5",
        "m5-pro",
        "m5-max-32c",
        "m5-max-40c",
        "a100-sxm-80gb",
        "a10",
        "rtx-3090",
    ],
)
def test_ampere_apple_m3_and_later_run_bf16_at_the_fp16_rate(name: str) -> None:
    assert chip(name).peak_flops_per_s("bf16") == chip(name).peak_flops_per_s("fp16")
    assert chip(name).compute.runs_as == {}


@pytest.mark.parametrize("name", ["tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7x", "epyc-9755", "gaudi2"])
def test_chips_without_a_published_fp16_rate_leave_it_out(name: str) -> None:
    assert not chip(name).has("fp16")
    assert chip(name).has("bf16")


# memory sizes


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("m1-7c", [8, 16]),
        ("m1-max", [32, 64]),
        ("m1-ultra", [64, 128]),
        ("m2-max", [32, 64, 96]),
        ("m2-ultra", [64, 128, 192]),
        ("m3-max", [48, 64, 128]),
        ("m3-ultra", [96, 256, 512]),
        ("m4", [16, 24, 32]),
        ("m4-max", [48, 64, 128]),
        ("m5", [16, 24, 32]),
        ("m5-pro", [24, 48, 64]),
        ("m5-max-32c", [36]),
        ("m5-max-40c", [48, 64, 128]),
    ],
)
def test_macs_come_in_the_sizes_apple_sells(name: str, sizes: list[int]) -> None:
    assert list(chip(name).memory.sizes) == [f"{n}GB" for n in sizes]
    for n in sizes:
        assert chip(f"{name}:{n}GB").memory_bytes == n * 2**30
        assert chip(f"{name}:{n}GB").hbm_bytes_per_s == chip(name).hbm_bytes_per_s


def test_a_default_memory_size_is_one_that_is_sold() -> None:
    disputed = {"m5-max-32c"}  # see its notes
    for name in set(IDS) - disputed:
        sold = [size.capacity_bytes for size in chip(name).memory.sizes.values()]
        assert not sold or chip(name).memory_bytes in sold


# measurements: they never enter a spec, and never beat one


@pytest.mark.parametrize("row", rows(DATA / "achieved_peaks.csv"), ids=lambda r: f"{r['id']}-{r['dtype']}")
def test_no_published_gemm_beats_the_bound(row: dict[str, str]) -> None:
    assert float(row["flops_per_s"]) <= chip(row["id"]).bound_flops_per_s(row["dtype"]), row["source"]


@pytest.mark.parametrize("row", rows(DATA / "achieved_bandwidths.csv"), ids=lambda r: r["id"])
def test_no_published_stream_beats_the_bandwidth(row: dict[str, str]) -> None:
    assert float(row["bytes_per_s"]) <= chip(row["id"]).hbm_bytes_per_s, row["source"]


def test_a_bound_above_the_rating_is_the_exception() -> None:
    loosened = {name for name in IDS for peak in matrix(chip(name)).values() if peak.peak_max_flops_per_s is not None}
    geforce = {name for name in IDS if "GeForce" in chip(name).name}
    base_clock = {"epyc-9755", "xeon-6980p"}  # rated at the base clock
    others = {"h100-nvl-94gb", "l40s", "b200-sxm-180gb", "gb200", "b300-sxm", "gb300", "gaudi3", "m4"}
    assert loosened == geforce | base_clock | others


# every figure against the tables the catalogue was written from, where they are at hand

FLOP_COLUMNS = {
    "tf32_flops": "tf32",
    "fp16_flops": "fp16",
    "bf16_flops": "bf16",
    "fp8_flops": "fp8",
    "int8_ops": "int8",
    "fp4_flops": "fp4",
    "int4_ops": "int4",
}

# (chip, column): the shipped value, and why it is not the table's
TB4 = (5e9, "Thunderbolt 4 carries 40 Gbit/s; the table has Thunderbolt 5 for every Mac")
OWN_MEMORY = (None, "a CPU's memory is the host's: no link lies between, and PCIe leads to devices")
DEPARTURES: dict[tuple[str, str], tuple[float | None, str]] = {
    **{(name, "ic_bw_per_dir"): TB4 for name in ("m1-max", "m1-ultra", "m2-max", "m2-ultra", "m3-max", "m4", "m5")},
    **{(name, "host_bw_per_dir"): OWN_MEMORY for name in ("epyc-9755", "xeon-6980p")},
}

# matrix rates that no column of the tables holds
ADDED = {(name, "bf16") for name in ("m3-max", "m3-ultra", "m4", "m4-max")} | {("mi355x", "fp6")}


def table() -> list[dict[str, str]]:
    if not TABLES.is_dir():
        return []
    return rows(TABLES / "hardware.csv") + rows(TABLES / "extra_chips.csv")


def told_apart() -> dict[str, dict[str, str]]:
    """The fp32 rates of chips whose table rows mix matrix and vector units."""
    return {row["id"]: row for row in rows(TABLES / "fp32_vector.csv")}


def number(text: str) -> float | None:
    return float(text) if text else None


def shipped_links(hardware: Hardware, row: dict[str, str]) -> dict[str, float | None]:
    links = hardware.links
    between = links.scale_out if hardware.vendor == "Apple" else links.scale_up  # Macs have no link inside the box
    up = between or Link(kind="pcie")
    return {
        "ic_bw_per_dir": up.bytes_per_s,
        "ic_pair_bw_per_dir": (up.pair_bytes_per_s or up.bytes_per_s) if row["ic_pair_bw_per_dir"] else None,
        "ic_domain": up.domain or 1,
        "host_bw_per_dir": links.host.bytes_per_s if links.host else None,
        "net_bw_per_dev": links.scale_out.bytes_per_s if links.scale_out and hardware.vendor != "Apple" else None,
    }


def shipped(hardware: Hardware, row: dict[str, str]) -> dict[str, float | None]:
    peaks, price, cache_, power = matrix(hardware), hardware.price, hardware.cache, hardware.power
    out: dict[str, float | None] = {
        "mem_bytes": hardware.memory_bytes,
        "mem_bw": hardware.hbm_bytes_per_s,
        "llc_bytes": cache_.capacity_bytes if cache_ else None,
        "tdp_w": power.tdp_w if power else None,
        "price_low_usd_h": price.low_usd_per_h if price else None,
        "price_high_usd_h": price.high_usd_per_h if price and row["price_high_usd_h"] else None,
    }
    for column, dtype in FLOP_COLUMNS.items():
        out[column] = peaks[dtype].peak_flops_per_s if dtype in peaks and (row["id"], dtype) not in ADDED else None
    for dtype in ("fp16", "fp8"):
        out[f"{dtype}_acc16_flops"] = peaks[dtype].peak_acc16_flops_per_s if dtype in peaks else None
    return out | shipped_links(hardware, row)


@pytest.mark.skipif(not TABLES.is_dir(), reason="the tables are not beside this checkout")
def test_the_tables_list_the_same_chips() -> None:
    assert sorted(row["id"] for row in table()) == sorted(IDS)


@pytest.mark.parametrize("row", table(), ids=lambda r: r["id"])
def test_every_figure_is_the_table_s_or_departs_for_a_reason(row: dict[str, str]) -> None:
    expected = {column: number(row[column]) for column in shipped(chip(row["id"]), row)}
    for (name, column), (value, _) in DEPARTURES.items():
        if name == row["id"]:
            assert expected[column] != value, "this departure is none: drop it"
            expected[column] = value
    assert shipped(chip(row["id"]), row) == expected


@pytest.mark.parametrize("row", table(), ids=lambda r: r["id"])
def test_fp32_is_the_vector_rate_and_matrix_units_have_their_own(row: dict[str, str]) -> None:
    apart = told_apart().get(row["id"])
    expected_vector = number(apart["fp32_vector_flops"] if apart else row["fp32_flops"])
    expected_matrix = number(apart["fp32_matrix_flops"]) if apart else None
    peaks = matrix(chip(row["id"]))
    assert vector(chip(row["id"])).get("fp32") == expected_vector
    assert (peaks["fp32"].peak_flops_per_s if "fp32" in peaks else None) == expected_matrix


@pytest.mark.parametrize("row", table(), ids=lambda r: r["id"])
def test_words_and_dates_are_the_table_s(row: dict[str, str]) -> None:
    hardware = chip(row["id"])
    assert hardware.vendor == row["vendor"]
    assert hardware.kind == {"hpu": "npu"}.get(row["kind"], row["kind"])
    assert hardware.released == datetime.date.fromisoformat(row["launch"])
    assert hardware.confidence == row["confidence"]
    assert hardware.memory.type == row["mem_type"].removesuffix(" (recalled)")
    if hardware.price:
        assert hardware.price.date == datetime.date.fromisoformat(row["price_date"])


def test_a_shipped_chip_is_read_once_and_a_file_of_yours_whenever_it_is_asked_for(tmp_path: Path) -> None:
    assert catalog.hardware("h100") is catalog.hardware("h100-sxm-80gb")
    path, text = tmp_path / "mine.yaml", (SHIPPED / "h100-sxm-80gb.yaml").read_text(encoding="utf-8")
    for mib in (81559, 95830):
        path.write_text(text.replace("81559 MiB", f"{mib} MiB"), encoding="utf-8")
        assert catalog.hardware(path).memory_bytes == mib * 2**20
        assert catalog.hardware("mine", search=[tmp_path]).memory_bytes == mib * 2**20


def test_equal_chips_have_one_hash() -> None:
    one = chip("h100-sxm-80gb")
    again = Hardware.read(catalog.load_yaml(SHIPPED / "h100-sxm-80gb.yaml"), where="again")
    assert again is not one
    assert again == one
    assert hash(again) == hash(one)
