"""What a request makes of the first pass: text, images in the text, images attended to, a source, a clip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Spec
from zoo import of_layers

import roofline as rl
from roofline.answers.inputs import Request, memory_tokens_of, request

SELF = {"kind": "attention", "n_heads": 2, "n_kv_heads": 1, "d_head": 8}
CROSS = {"kind": "cross_attention", "n_heads": 2, "n_kv_heads": 1, "d_head": 8, "d_memory": 16}
PATCHES = ({"name": "patches", "d_in": 12, "d_out": 16},)
TILES = {"kind": "tiled", "tile": 100, "max_tiles": 4, "tower_tokens": 50, "prompt_tokens": 10, "tile_tokens": 1}
FIXED = {"kind": "fixed", "tower_tokens": 40, "prompt_tokens": 7}


def text_only() -> rl.Model:
    return of_layers({"mixer": SELF, "ffn": None})


def seeing(image: Spec = FIXED) -> rl.Model:
    tower = {"kind": "vision", "d_model": 16, "stem": PATCHES, "feeds": "prompt", "image": image}
    return of_layers({"mixer": SELF, "ffn": None}, towers=(tower,))


def crossing(image: Spec = FIXED) -> rl.Model:
    tower = {"kind": "vision", "d_model": 16, "stem": PATCHES, "feeds": "memory", "image": image}
    return of_layers({"mixer": SELF, "ffn": None}, {"mixer": None, "cross": CROSS, "ffn": {"d_ff": 8}}, towers=(tower,))


def translating() -> rl.Model:
    tower = {"kind": "text", "d_model": 16, "feeds": "memory", "shares_embedding": True}
    return of_layers({"mixer": SELF, "cross": CROSS, "ffn": None}, towers=(tower,))


def hearing() -> rl.Model:
    tower = {"kind": "audio", "d_model": 16, "stem": PATCHES, "feeds": "memory", "fixed_tokens": 1500}
    return of_layers({"mixer": SELF, "cross": CROSS, "ffn": None}, towers=(tower,))


def encoding() -> rl.Model:
    return of_layers({"mixer": SELF | {"causal": False}, "ffn": None}, head=None)


def deployed(model: rl.Model) -> rl.Deployment:
    return rl.Deployment(model=model, hardware=rl.hardware("h100-sxm-80gb"))


# The table of `request`, line by line


@pytest.mark.parametrize(
    ("model", "images", "expected"),
    [
        (text_only, 0, Request(n_new=9)),
        (encoding, 0, Request(n_new=9)),
        (seeing, 0, Request(n_new=9)),
        (crossing, 0, Request(n_new=9)),
        (seeing, 2, Request(n_new=9 + 2 * 7, n_images=2, n_inputs=2, n_input_tokens=40)),
        (crossing, 2, Request(n_new=9, n_images=2, n_inputs=2, n_input_tokens=40, n_memory=80)),
        (translating, 0, Request(n_new=1, n_inputs=1, n_input_tokens=9, n_memory=9)),
        (hearing, 0, Request(n_new=9, n_inputs=1, n_input_tokens=1500, n_memory=1500)),
    ],
)
def test_a_prompt_of_nine_tokens_becomes_the_first_pass_of_its_kind(model: Any, images: int, expected: Request) -> None:
    assert request(model(), prompt_tokens=9.0, images=images) == expected


def test_an_image_in_tiles_is_several_inputs() -> None:
    """150 × 150 pixels in tiles of 100: 2 × 2 tiles and a copy, five units of 50 patches; 5·10 tokens and 4 separators."""
    asked = request(seeing(TILES), prompt_tokens=9.0, images=3, image_size=(150, 150))
    assert asked == Request(n_new=9 + 3 * 54, n_images=3, n_inputs=15, n_input_tokens=50)


def test_outputs_that_are_attended_to_may_be_fewer_than_the_tower_s_tokens() -> None:
    """Llama 3.2 pads each of four tiles from 1601 to 1608 tokens; 4 · 1601 outputs are remembered."""
    image = {"kind": "fixed", "tower_tokens": 6432, "prompt_tokens": 1, "memory_tokens": 6404}
    asked = request(crossing(image), prompt_tokens=9.0, images=2)
    assert (asked.n_inputs, asked.n_input_tokens, asked.n_memory) == (2, 6432, 2 * 6404)


# The answers that rest on it


@given(st.integers(1, 5000), st.integers(1, 20), st.integers(1, 8))
def test_images_in_a_prompt_are_tokens_and_a_tower_s_work(prompt: int, images: int, batch: int) -> None:
    """A prompt with images takes as long as one with as many tokens more, and the tower's rows besides."""
    d = deployed(seeing())
    with_images = rl.prefill(d, prompt_tokens=prompt, images=images, batch=batch)
    longer = rl.prefill(d, prompt_tokens=prompt + 7 * images, batch=batch)
    tower = [row for row in with_images.by_op() if row["name"].startswith("vision.")]
    assert sum(row["flops"] for row in tower) == 2 * batch * images * 40 * 12 * 16
    assert with_images.flops == longer.flops + sum(row["flops"] for row in tower)
    assert with_images.seconds == pytest.approx(longer.seconds + sum(row["seconds"] for row in tower), rel=1e-9)


@pytest.mark.parametrize("model", [text_only, encoding, translating, hearing])
def test_a_model_without_eyes_refuses_images(model: Any) -> None:
    with pytest.raises(rl.SpecError, match="reads no images"):
        rl.prefill(deployed(model()), prompt_tokens=9, images=1)


@pytest.mark.parametrize("size", [(0, 9), (9,), (9, 9, 9), (1.5, 9), "9x9", (True, 9), (-1, 9), (10**9, 9), None])
def test_a_size_that_is_no_size_is_refused(size: Any) -> None:
    with pytest.raises(rl.SpecError, match="image_size"):
        rl.prefill(deployed(seeing()), prompt_tokens=9, images=1, image_size=size)


@pytest.mark.parametrize("images", [-1, float("nan"), float("inf"), "two", True])
def test_a_number_of_images_that_is_none_is_refused(images: Any) -> None:
    with pytest.raises(rl.SpecError, match="images"):
        rl.prefill(deployed(seeing()), prompt_tokens=9, images=images)


def test_a_grid_over_images_equals_its_points() -> None:
    """Some with none: a prompt without images makes the tower do nothing."""
    for model in (seeing(), crossing(), seeing(TILES)):
        d, counts = deployed(model), [0, 1, 3]
        grid = rl.prefill(d, prompt_tokens=np.array([[5], [9]]), images=np.array(counts))
        for name in ("seconds", "floor_s", "flops", "hbm_bytes"):
            points = [[getattr(rl.prefill(d, prompt_tokens=p, images=n), name) for n in counts] for p in (5, 9)]
            assert np.asarray(getattr(grid, name)).tolist() == points, name


@pytest.mark.parametrize("model", [translating, encoding])
def test_what_is_read_both_ways_has_no_cached_prefix(model: Any) -> None:
    with pytest.raises(rl.SpecError, match="n_past"):
        rl.prefill(deployed(model()), prompt_tokens=9, n_past=4)


def test_an_encoder_gives_no_tokens() -> None:
    d = deployed(encoding())
    with pytest.raises(rl.SpecError, match="encoder"):
        rl.decode(d, context_tokens=9)
    assert rl.prefill(d, prompt_tokens=9).seconds > 0
    assert rl.memory(d, context_tokens=9, batch=2).kv_bytes == 0


# Memory of passes without a request


def test_who_remembers_what_unless_told() -> None:
    assert memory_tokens_of(text_only(), None) == memory_tokens_of(seeing(), None) == 0
    assert memory_tokens_of(crossing(), None) == 0  # no images
    assert memory_tokens_of(hearing(), None) == 1500
    assert memory_tokens_of(crossing(), 80) == 80
    with pytest.raises(rl.SpecError, match="say how many"):
        memory_tokens_of(translating(), None)
    with pytest.raises(rl.SpecError, match="no cross-attention"):
        memory_tokens_of(seeing(), 5)


@pytest.mark.parametrize("memory", [-1, float("nan"), "many", 1e13, True])
def test_a_memory_that_is_no_number_of_tokens_is_refused(memory: Any) -> None:
    with pytest.raises(rl.SpecError, match="memory_tokens"):
        rl.kv_bytes(crossing(), context_tokens=9, memory_tokens=memory)


@given(st.integers(1, 400), st.integers(1, 300), st.integers(2, 6), st.integers(1, 4))
def test_a_translation_is_an_encoding_and_a_decode_a_token(prompt: int, more: int, n_out: int, batch: int) -> None:
    """Its first pass reads the source and the start token; every later one attends to as much source."""
    d = deployed(translating())
    p = rl.predict(d, prompt_tokens=prompt + more, output_tokens=n_out, batch=batch)
    passes = [
        rl.decode(d, context_tokens=1 + i, memory_tokens=prompt + more, batch=batch).seconds for i in range(n_out - 1)
    ]
    assert p.ttft_s == rl.prefill(d, prompt_tokens=prompt + more, batch=batch).seconds
    assert p.tpot_s == pytest.approx(sum(passes) / len(passes), rel=1e-9)


@given(st.integers(1, 400), st.integers(1, 3), st.integers(2, 6), st.integers(1, 4))
def test_a_request_with_images_goes_on_after_its_image_tokens(prompt: int, images: int, n_out: int, batch: int) -> None:
    """In the text they lengthen the context, 7 an image; attended to they are remembered, 40 an image."""
    for model, longer, memory in ((seeing(), 7 * images, None), (crossing(), 0, 40 * images)):
        d = deployed(model)
        p = rl.predict(d, prompt_tokens=prompt, output_tokens=n_out, batch=batch, images=images)
        passes = [
            rl.decode(d, context_tokens=prompt + longer + i, memory_tokens=memory, batch=batch).seconds
            for i in range(n_out - 1)
        ]
        assert p.ttft_s == rl.prefill(d, prompt_tokens=prompt, batch=batch, images=images).seconds
        assert p.tpot_s == pytest.approx(sum(passes) / len(passes), rel=1e-9)


def test_the_memory_of_a_request_holds_its_images_and_its_source() -> None:
    """32 B a token of context and as many an output attended to: the last of five tokens is not cached."""
    said = rl.predict(deployed(crossing()), prompt_tokens=10, output_tokens=5, batch=2, images=3).memory
    assert said.kv_bytes == 2 * (32 * 14 + 32 * 120)
    said = rl.predict(deployed(translating()), prompt_tokens=10, output_tokens=5, batch=2).memory
    assert said.kv_bytes == 2 * (32 * 5 + 32 * 10)  # the start token and four more
