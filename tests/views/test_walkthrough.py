"""The walkthrough page: its figures are the library's at every setting, its words stand in both languages."""

from __future__ import annotations

import gzip
import html as escapes
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline import SpecError, Unsupported, decode, hardware, kv_bytes, memory, model, prefill
from roofline.answers.ladder import with_kv_heads
from roofline.specs.deployment import Deployment
from roofline.specs.plan import Plan
from roofline.specs.precision import Precision
from roofline.specs.recurrent import Mamba2
from roofline.units import format_bytes, format_si
from roofline.views.cli import run
from roofline.views.walkthrough import page
from roofline.views.walkthrough.phrases import sentences
from roofline.views.walkthrough.shown import parts_of, shown_of
from roofline.views.words import percent, seconds, three

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
KINDS = (  # MHA; GQA; MLA and experts; windows, sinks and experts; delta nets; windows; MQA; K = V
    ("llama-2-7b", "h100-sxm-80gb"),
    ("llama-3.1-8b", "m5-max-40c"),
    ("deepseek-v3", "h200-sxm-141gb"),
    ("gpt-oss-20b", "rtx-5090"),
    ("qwen3-next-80b-a3b", "mi300x"),
    ("gemma-3-27b", "l4"),
    ("falcon-7b", "a10"),
    ("gemma-4-31b-nvfp4", "b200-sxm-180gb"),
)


def deployment(name: str, chip: str) -> Deployment:
    return Deployment(model=model(name), hardware=hardware(chip))


PAGES = {name: page(deployment(name, chip)) for name, chip in KINDS[:1]}


def page_of(name: str) -> str:
    if name not in PAGES:
        PAGES[name] = page(deployment(name, dict(KINDS)[name]))
    return PAGES[name]


def answers(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="answers">(.*?)</script>', text, re.S)
    assert found is not None
    loaded: dict[str, Any] = json.loads(found[1])
    return loaded


def looked_up(found: dict[str, Any], name: str, **at: int) -> Any:
    """A figure at a setting, read as the page's script does."""
    dims, texts, codes = found["slots"][name]
    i = 0
    for dim in dims:
        i = i * len(found["stops"][dim]) + at.get(dim, found["start"][dim])
    if len(texts) <= 64:
        return texts[DIGITS.index(codes[i])]
    return texts[DIGITS.index(codes[2 * i]) * 64 + DIGITS.index(codes[2 * i + 1])]


def shown(text: str, name: str) -> str:
    """A figure as the page has it before its script runs."""
    found = re.search(rf'<b data-v="{re.escape(name)}">(.*?)</b>', text)
    assert found is not None, name
    return escapes.unescape(found[1])


# By hand, for the example the page grew from: Llama-2-7B, 4096 wide, 32 heads of 128, 32 layers, 16 bit; 4 tokens


def test_the_figures_of_the_7b_example_are_those_worked_by_hand() -> None:
    text = page_of("llama-2-7b")
    assert shown(text, "s1.q_proj.flops") == "134,217,728"  # 2 · 4 · 4096 · 4096
    assert "33,554,432 B of weights (32.0 MiB)" in text  # 4096 · 4096 · 2 B
    assert shown(text, "s1.q_proj.intensity") == "4.00"  # 134,217,728 / 33,554,432
    assert shown(text, "s2.flops") == "52.1 GFLOP"
    assert shown(text, "s2.pairs") == "10"  # 4 · 5 / 2
    assert shown(text, "s3.layer") == "65,536"  # 2 · 32 · 4 · 128 · 2 B
    assert shown(text, "s3.kept") == "2.00 MiB"  # 32 layers of it
    assert "524,288 B (512 KiB)" in text  # 2 · 32 · 128 · 2 B · 32 layers
    assert shown(text, "s4.q_proj.flops") == "33,554,432"  # 2 · 4096 · 4096
    assert shown(text, "s4.q_proj.intensity") == "1.00"
    assert shown(text, "s4.att.flops") == "81,920"  # scores and values: 2 · (2 · 32 · 5 · 128)
    assert shown(text, "s4.s") == "3.95 ms"  # 13.2 GB / 3.35 TB/s
    assert shown(text, "s5.s") == "4.59 ms"
    assert shown(text, "s5.share") == "14 %"  # 2.15 of 15.4 GB
    assert shown(text, "s5.cache") == "2.00 GiB"


def test_the_cache_of_eight_heads_is_a_quarter_of_that_of_thirty_two() -> None:
    found = answers(page_of("llama-2-7b"))
    assert found["stops"]["h"] == [32, 8, 1]
    assert [looked_up(found, "s5.token", h=h) for h in range(3)] == ["524,288", "131,072", "16,384"]
    assert [looked_up(found, "s5.token", h=0, k=k) for k in range(3)] == ["524,288", "262,144", "147,456"]  # 4.5 bits


# The figures are the library's


@pytest.mark.parametrize("name", [name for name, _ in KINDS])
@settings(max_examples=12)
@given(data=st.data())
def test_every_setting_shows_what_the_library_answers(name: str, data: st.DataObject) -> None:
    found, d = answers(page_of(name)), deployment(name, dict(KINDS)[name])
    at = {dim: data.draw(st.integers(0, len(stops) - 1), label=dim) for dim, stops in found["stops"].items()}
    n, b, c = (found["stops"][dim][at[dim]] for dim in "nbc")

    def says(slot: str) -> Any:
        return looked_up(found, slot, **at)

    read, step = prefill(d, prompt_tokens=n), decode(d, context_tokens=n, batch=b)
    assert says("s2.s") == seconds(read.seconds)
    assert says("s2.flops") == format_si(float(read.executed_flops), "FLOP")
    if "s2.bound" in found["slots"]:  # else no prompt moves it
        assert says("s2.bound") == {"compute": ["compute", "算力"], "memory": ["memory", "显存带宽"]}[read.bound]
    assert says("s2.mfu") == percent(read.mfu)
    assert says("s3.kept") == format_bytes(float(kv_bytes(d.model, context_tokens=n, kv=d.numerics.kv.name)))
    assert says("s4.s") == seconds(step.seconds)
    assert says("s4.user") == three(1.0 / step.seconds)
    assert says("s4.all") == three(b / step.seconds)
    assert says("s4.bytes") == format_si(float(step.hbm_bytes), "B")
    with_it, without = decode(d, context_tokens=n), prefill(d, prompt_tokens=n + 1)
    assert says("s3.with.flops") == format_si(float(with_it.executed_flops), "FLOP")
    assert says("s3.without.flops") == format_si(float(without.executed_flops), "FLOP")
    assert says("s3.r.s") == seconds((without if at["r"] else with_it).seconds)

    heads = found["stops"]["h"][at["h"]]
    own = at["h"] == found["start"]["h"]
    buttons = {dim: _buttons(page_of(name), dim) for dim in "kw"}
    formats = {"kv": buttons["k"][at["k"]]} | ({"weights": buttons["w"][at["w"]]} if at["w"] else {})
    changed = Deployment(
        model=d.model if own else with_kv_heads(d.model, heads), hardware=d.hardware, precision=Precision(**formats)
    )
    late, room = decode(changed, context_tokens=c, batch=b), memory(changed, context_tokens=c, batch=b)
    assert says("s5.s") == seconds(late.seconds)
    assert says("s5.cache") == format_bytes(float(room.kv_bytes))
    assert says("s5.share") == percent(late.total("kv_read_bytes") / late.hbm_bytes)
    assert says("s5.weights") == format_bytes(float(room.weight_bytes))
    assert says("s5.used") == format_bytes(float(room.used_bytes_per_chip))
    if "s5.fits" in found["slots"]:
        assert says("s5.fits") == (["fits", "放得下"] if room.fits else ["does not fit", "放不下"])


def _buttons(text: str, dim: str) -> list[str]:
    return re.findall(rf'<input type="radio" name="s5-{dim}"[^>]*><span>([^<]+)</span>', text)


@pytest.mark.parametrize("name", [name for name, _ in KINDS])
def test_the_matrices_of_a_line_fit_its_width_at_every_setting(name: str) -> None:
    """The widths of the squares add up to less than the line stands for, and none is higher than half of it."""
    text = page_of(name)
    found = answers(text)
    lines = re.findall(
        r'<div class="line" style="--span:(\d+)"(?: data-set="--span:([\w.]+)")?>(.*?)</div>', text, re.S
    )
    assert len(lines) >= 7
    for span, slot, inside in lines:
        mats = re.findall(r'--r:(\d+);--c:(\d+)" data-set="--r:([\w.]+);--c:([\w.]+)"', inside)
        stacked = 2 if 'class="stack"' in inside else 1
        assert mats
        for at in _corners(found):
            wide = [_number(found, slot_c, c, at) for _, c, _, slot_c in mats]
            high = [_number(found, slot_r, r, at) for r, _, slot_r, _ in mats]
            room = _number(found, slot, span, at)
            across = sum(wide) if stacked == 1 else wide[0] + max(wide[1:])
            assert across <= room
            assert max(high) <= 0.5 * room


def _corners(found: dict[str, Any]) -> list[dict[str, int]]:
    last = {dim: len(stops) - 1 for dim, stops in found["stops"].items()}
    return [dict.fromkeys(last, 0), last, {**last, "n": 0}, {**last, "c": 0}, {**last, "h": 0}]


def _number(found: dict[str, Any], slot: str, fixed: str, at: dict[str, int]) -> float:
    return float(looked_up(found, slot, **at)) if slot in found["slots"] else float(fixed)


def test_points_lie_on_or_under_the_roof_that_is_drawn() -> None:
    text = page_of("llama-3.1-8b")
    found = answers(text)
    path = re.search(r'class="line" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', text)
    assert path is not None
    x0, y0, x1, y1, x2, y2 = map(float, path.groups())
    for name in ("s1", "s2", "s4", "s5"):
        for at in _corners(found):
            x, y = (float(looked_up(found, f"{name}.{axis}", **at)) for axis in "xy")
            roof = float(np.interp(x, [x0, x1, x2], [y0, y1, y2]))
            assert y >= roof - 1.5  # downwards is more; coordinates are whole


def test_the_knee_is_the_first_prompt_from_which_compute_binds() -> None:
    d = deployment("llama-2-7b", "h100-sxm-80gb")
    knee = re.search(r"compute from ([\d,]+) tokens on", page_of("llama-2-7b"))
    assert knee is not None
    n = int(knee[1].replace(",", ""))
    assert prefill(d, prompt_tokens=n).bound == "compute"
    assert prefill(d, prompt_tokens=n - 1).bound == "memory"
    assert n in answers(page_of("llama-2-7b"))["stops"]["n"]


# What its sentences claim, of every kind of model


@pytest.mark.parametrize("name", [name for name, _ in KINDS])
def test_a_product_is_bound_by_compute_right_of_the_ridge_it_is_held_against(name: str) -> None:
    found, text = answers(page_of(name)), page_of(name)
    ridge = re.search(r"The ridge of \w+ is at ([\d,]+)", text)
    assert ridge is not None
    stops = range(len(found["stops"]["n"]))
    shares = [
        float(looked_up(found, "s1.first.all", n=n).replace(",", "")) / float(ridge[1].replace(",", "")) for n in stops
    ]
    bounds = [looked_up(found, "s1.first.bound", n=n)[0] for n in stops]
    assert {(share > 1, bound) for share, bound in zip(shares, bounds, strict=True) if abs(share - 1) > 0.01} == {
        (False, "memory"), (True, "compute")
    }  # fmt: skip


def test_experts_that_are_read_are_those_that_tokens_are_sent_to() -> None:
    text, found = page_of("gpt-oss-20b"), answers(page_of("gpt-oss-20b"))  # 4 of 32 experts a token
    assert "A token passes 4 of 32 experts in a layer." in text
    assert shown(text, "s4.experts") == "12 %"  # 4 / 32
    assert shown(text, "s2.experts") == "41 %"  # 1 − (1 − 1/8)⁴
    assert looked_up(found, "s2.experts", n=len(found["stops"]["n"]) - 1) == "100 %"
    assert "The same weights are read as for the whole prompt." not in text
    assert "The same weights are read as for the whole prompt." in page_of("llama-2-7b")


def test_a_token_costs_less_once_windows_are_full() -> None:
    text = page_of("gemma-3-27b")  # 52 layers of 62 see 1024 tokens; 16 heads of 128 in 16 bit
    assert "507,904 B (496 KiB) while it is short, and 81,920 B once every window is full" in text  # 62 and 10 · 8192
    room = (
        2 * model("gemma-3-27b").n_params - 52 * 8192 * 1024
    )  # what the windows leave of as many bytes as the weights
    assert shown(text, "s5.equal") == f"{room // 81_920:,}"
    assert "it is one of 10 that are alike" in text  # shown is a layer that sees the whole context


def test_what_recurrent_layers_keep_is_said_beside_the_cache() -> None:
    assert "The recurrent layers keep 73.7 MiB besides" in page_of("qwen3-next-80b-a3b")  # 36·(32·128·128·4 + 8192·3·2)
    assert "recurrent" not in page_of("llama-2-7b").partition("<script")[0]


@pytest.mark.parametrize("name", [name for name, _ in KINDS])
def test_whether_a_batch_lifts_decode_past_the_ridge_is_what_an_endless_one_does(name: str) -> None:
    found, d = answers(page_of(name)), deployment(name, dict(KINDS)[name])
    for i, n in enumerate(found["stops"]["n"]):
        if "s4.lifts" in found["slots"]:
            bound = decode(d, context_tokens=n, batch=1e9).bound
            assert ("no batch" in looked_up(found, "s4.lifts", n=i)[0]) == (bound != "compute")


@pytest.mark.parametrize(
    ("name", "limit"),
    [("llama-2-7b", "1.00"), ("llama-3.1-8b", "4.00"), ("falcon-7b", "71.0"),  # query heads a key: 1, 32/8, 71
     ("deepseek-v3", "242")],  # 2 · 128 · (576 + 512) FLOP for 576 · 2 B
)  # fmt: skip
def test_attention_in_a_long_context_has_the_intensity_of_its_group(name: str, limit: str) -> None:
    assert f"in a long context it is {limit}:" in page_of(name)


def test_the_weight_formats_on_the_buttons_take_ever_fewer_bytes() -> None:
    for name, chip in KINDS:
        d = deployment(name, chip)
        own, *others = _buttons(page_of(name), "w")
        held = [memory(d, context_tokens=1).weight_bytes]
        for other in others:
            narrower = Deployment(model=d.model, hardware=d.hardware, weights=other)
            held.append(memory(narrower, context_tokens=1).weight_bytes)
        assert held == sorted(set(held), reverse=True), (own, others)
    assert _buttons(page_of("gpt-oss-20b"), "w")[0] == "mxfp4+bf16"  # experts of 4 bits: 8 would be wider


def test_the_layer_shown_is_the_model_s_own_and_its_values_have_their_width() -> None:
    d = deployment("qwen2.5-vl-7b", "v100-sxm2-32gb")  # its tower has as many layers of a kind: 28
    own = shown_of(d.model, prefill(d, prompt_tokens=4))
    assert own.projections == ("q_proj", "k_proj", "v_proj")
    assert own.dims["q_proj"] == (3584, 3584)
    d = deployment("mimo-v2-flash", "h200-sxm-141gb")  # 4 heads of 192 with values of 128 where all is seen
    assert shown_of(d.model, prefill(d, prompt_tokens=4)).kept(4) == {"K": 768, "V": 512}
    d = deployment("deepseek-v3.2", "h200-sxm-141gb")  # of what stands before attention the indexer's makes no K or V
    assert shown_of(d.model, prefill(d, prompt_tokens=4)).projections == (
        "q_a_proj", "q_b_proj", "kv_a_proj", "k_b_proj", "v_b_proj"
    )  # fmt: skip


def test_in_a_window_a_row_of_scores_ends() -> None:
    found = answers(page(deployment("mistral-7b-v0.1", "a10")))  # every layer sees 4096
    last = {dim: len(stops) - 1 for dim, stops in found["stops"].items()}
    assert looked_up(found, "s4.keys", **last) == "4096"
    assert looked_up(found, "s3.layer", **last) == f"{4096 * 2 * 8 * 128 * 2:,}"
    assert looked_up(found, "s2.pairs", **last) == f"{4096 * 4097 // 2 + 4096 * 4096:,}"  # 8192 queries
    assert looked_up(found, "s5.keys", **last) == "4096"


@pytest.mark.parametrize("name", ["deepseek-v2-lite", "qwen3-next-80b-a3b", "gemma-4-e2b", "jamba-1.5-mini"])
def test_parts_make_the_whole_pass(name: str) -> None:
    d = deployment(name, "h100-sxm-80gb")
    t = decode(d, context_tokens=100)
    parts = parts_of(d.model, t)
    assert sum(float(of["executed_flops"]) for of in parts.values()) == pytest.approx(
        float(t.executed_flops), rel=1e-12
    )
    assert sum(float(of["streamed_bytes"]) for of in parts.values()) == pytest.approx(float(t.hbm_bytes), rel=1e-12)


def test_a_lone_dense_layer_is_feed_forward_too() -> None:
    d = deployment("deepseek-v2-lite", "h100-sxm-80gb")  # 1 dense layer of 10944; 26 of 6 experts and 2 shared, of 1408
    weights = 3 * 2048 * 10944 + 26 * (3 * 2048 * 1408 * (6 + 2) + 2048 * 64)
    assert float(parts_of(d.model, decode(d, context_tokens=4))["ffn"]["executed_flops"]) == 2 * weights


def test_a_shape_has_no_commas_of_its_own() -> None:
    text = re.sub(r"<[^>]+>", "", page(deployment("llama-2-7b", "h100"), prompt_tokens=2048))
    assert "(2048, 4096) × (4096, 4096)" in text
    assert re.findall(r"\(\d+,\d{3}, |, \d+,\d{3}\)", text) == []


# One file that fetches nothing


def test_the_largest_page_with_stops_of_the_reader_s_own_is_small() -> None:
    text = page(deployment("gemma-4-26b-a4b", "h100"), prompt_tokens=3001, batch=24).encode()
    assert len(text) <= 250_000
    assert len(gzip.compress(text)) <= 70_000


@pytest.mark.parametrize("name", [name for name, _ in KINDS])
def test_the_page_is_small_and_names_no_network(name: str) -> None:
    text = page_of(name)
    assert len(text.encode()) <= 250_000
    assert len(gzip.compress(text.encode())) <= 70_000
    assert "http:" not in text
    assert "https:" not in text
    assert "default-src 'none'" in text
    assert re.findall(r"<(?:link|img|iframe|object|embed)\b|@import|url\(|fetch\(|eval\(|XMLHttp", text) == []
    assert re.findall(r'href="(?!#)', text) == []


def test_every_figure_is_shown_and_every_one_shown_is_there() -> None:
    text = page_of("llama-2-7b")
    used = set(re.findall(r'data-v="([\w.]+)"', text))
    for bound in re.findall(r'data-set="([^"]+)"', text):
        used |= {part.partition(":")[2] for part in bound.split(";")}
    slots = set(answers(text)["slots"])
    assert slots - used == set()
    assert set(re.findall(r'data-v="([\w.]+)"', text)) - slots == set()


# Words


def test_every_sentence_stands_in_both_languages_with_the_same_figures() -> None:
    for key, both in sentences().items():
        assert set(both) == {"en", "zh"}, key
        assert all(text.strip() for text in both.values()), key
        figures = [sorted(re.findall(r"\{([\w.]+)\}", both[lang])) for lang in ("en", "zh")]
        assert figures[0] == figures[1], key


def test_chinese_has_chinese_stops() -> None:
    for key, both in sentences().items():
        assert not re.search(r"[\u4e00-\u9fff][.,;:?!]|[.,;:?!](?=[\u4e00-\u9fff])|[.]$", both["zh"]), key


def test_every_sentence_is_said_of_some_model() -> None:
    pages = escapes.unescape("".join(page_of(name) for name, _ in KINDS))
    for key, both in sentences().items():
        pieces = re.split(r"\{[\w.]+\}", both["en"])
        assert max(pieces, key=len) in pages, key


def test_the_page_opens_in_the_language_asked_for() -> None:
    d = deployment("llama-2-7b", "h100-sxm-80gb")
    assert '<html lang="zh-Hans" data-asked>' in page(d, lang="zh")
    assert '<html lang="en" data-asked>' in page(d, lang="en")
    assert '<html lang="en">' in page_of("llama-2-7b")


# Where it begins


def test_the_sliders_begin_where_one_asks() -> None:
    found = answers(page(deployment("llama-3.1-8b", "h100-sxm-80gb"), prompt_tokens=3000, batch=24))
    assert found["stops"]["n"][found["start"]["n"]] == 3000
    assert found["stops"]["b"][found["start"]["b"]] == 24
    assert 3001 in found["stops"]["c"]
    far = answers(page(deployment("llama-3.1-8b", "h100-sxm-80gb"), prompt_tokens=20_000))
    assert far["stops"]["c"][far["start"]["c"]] > 20_000  # no context shorter than its prompt


def test_a_context_past_the_model_s_own_is_shown_and_said() -> None:
    found = answers(page_of("llama-2-7b"))
    over = [looked_up(found, "over.c", c=i) for i in range(len(found["stops"]["c"]))]
    said = [bool(text) for text in over]
    assert said == [c > 4096 for c in found["stops"]["c"]]


# What it refuses


@pytest.mark.parametrize(
    ("name", "said"),
    [("whisper-large-v3", "decoder of text"), ("flan-t5-base", "decoder of text")],
)
def test_what_is_no_decoder_of_text_is_refused_by_name(name: str, said: str) -> None:
    with pytest.raises(Unsupported, match=f"{name}.*{said}"):
        page(Deployment(model=model(name), hardware=hardware("h100")))


def test_what_keeps_no_keys_and_values_is_refused_by_name() -> None:
    hybrid = model("nemotron-h-8b")
    group = hybrid.layers[0]
    recurrent = next(layer for g in hybrid.layers for layer in g.layers if isinstance(layer.mixer, Mamba2))
    alone = hybrid.model_copy(update={"layers": (group.model_copy(update={"layers": (recurrent,)}),)})
    with pytest.raises(Unsupported, match="keeps a key and a value"):
        page(Deployment(model=alone, hardware=hardware("h100")))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lang": "fr"}, 'expected "en" or "zh"'),
        ({"prompt_tokens": 0}, "prompt_tokens"),
        ({"prompt_tokens": 2.5}, "whole number"),
        ({"prompt_tokens": float("nan")}, "prompt_tokens"),
        ({"prompt_tokens": [4, 8]}, "one whole number"),
        ({"prompt_tokens": 1e9}, "prompt_tokens"),
        ({"batch": -1}, "batch"),
        ({"batch": 257}, "batch"),
    ],
)
def test_settings_out_of_range_are_refused_in_words(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        page(deployment("llama-2-7b", "h100-sxm-80gb"), **options)


def test_it_shows_one_ideal_chip() -> None:
    d = deployment("llama-3.1-8b", "h100-sxm-80gb")
    with pytest.raises(SpecError, match="one ideal chip"):
        page(Deployment(model=d.model, hardware=d.hardware, plan=Plan(tp=2)))
    with pytest.raises(SpecError, match="one ideal chip"):
        page(Deployment(model=d.model, hardware=d.hardware, engine="vllm"))


# The command


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "page.html"
    assert run(["walkthrough", "llama-2-7b", "h100-sxm-80gb", "-o", str(target)]) == 0
    assert target.read_text(encoding="utf-8") == page_of("llama-2-7b")
    assert capsys.readouterr().out.startswith(f"wrote {target}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["llama-2-7b", "h1000"], "did you mean"),
        (["llama-2-7", "h100"], "did you mean"),
        (["llama-2-7b", "h100", "--lang", "cn"], 'expected "en" or "zh"'),
        (["llama-2-7b", "h100", "--prompt", "0"], "--prompt"),
        (["llama-2-7b", "h100", "-o", "page.png"], ".html"),
        (["flan-t5-base", "h100"], "decoder of text"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["walkthrough", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert "Traceback" not in printed.err
    assert list(tmp_path.iterdir()) == []
