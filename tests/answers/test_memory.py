"""Does it fit: figures by hand, and the two inverses checked against the question they invert."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl

H100 = rl.hardware("h100-sxm-80gb")  # 81,559 MiB
LLAMA = rl.model("llama-3.1-8b")  # 8,030,261,248 parameters; 2 · 32 layers · 8 heads · 128 · 2 B = 131,072 B a token
GEMMA = rl.model("gemma-3-1b")  # 22 of 26 layers hold at most 512 tokens

D = rl.Deployment(model=LLAMA, hardware=H100)


def test_weights_and_cache_are_held_against_what_the_driver_reports() -> None:
    m = rl.memory(D, context_tokens=8192, batch=32)
    assert m.weight_bytes == 2 * 8030261248
    assert m.kv_bytes == 32 * 8192 * 131072
    assert m.capacity_bytes == 81559 * 2**20
    assert m.used_bytes == m.weight_bytes + m.kv_bytes
    assert m.fits is True
    assert m.short_by_bytes == 0


def test_the_largest_batch_and_the_longest_context_fill_what_the_weights_leave() -> None:
    m = rl.memory(D, context_tokens=8192, batch=4)
    room = 81559 * 2**20 - 2 * 8030261248  # 69,460,287,488 B = 529,939.9 tokens
    assert m.max_batch == room // (8192 * 131072) == 64
    assert m.max_context_tokens == min(room // (4 * 131072), 131072) == 131072  # the model's own limit
    assert rl.memory(D, context_tokens=1, batch=16).max_context_tokens == room // (16 * 131072) == 33121


def test_what_the_weights_alone_overfill_has_no_batch_and_no_context() -> None:
    m = rl.memory(rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=H100), context_tokens=1024)
    assert m.fits is False
    assert m.short_by_bytes == 2 * 70553706496 + 1024 * 327680 - 81559 * 2**20
    assert m.max_batch == 0
    assert m.max_context_tokens == 0


def test_fewer_bits_make_room() -> None:
    awq = rl.memory(rl.Deployment(model=rl.model("llama-3.1-70b"), hardware=H100, weights="awq"), context_tokens=1024)
    # 80 layers · 855,638,016 elements at 4.15625 bits, and 2 · 128,256 · 8192 of table and head and the norms in 16
    layers = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672)
    norms = (2 * 80 + 1) * 8192
    assert awq.weight_bytes == layers * 4.15625 / 8 + 2 * (2 * 128256 * 8192 + norms)
    assert awq.fits is True


@given(st.integers(1, 64), st.integers(1, 400_000))
def test_the_inverses_are_the_last_that_fit(batch: int, context: int) -> None:
    d = rl.Deployment(model=GEMMA, hardware=rl.hardware("rtx-3070"))
    m = rl.memory(d, context_tokens=context, batch=batch)
    if m.max_batch >= 1:
        assert rl.memory(d, context_tokens=context, batch=m.max_batch).fits
    assert not rl.memory(d, context_tokens=context, batch=m.max_batch + 1).fits
    if m.max_context_tokens >= 1:
        assert rl.memory(d, context_tokens=m.max_context_tokens, batch=batch).fits
    if m.max_context_tokens < GEMMA.max_context_tokens:
        assert not rl.memory(d, context_tokens=m.max_context_tokens + 1, batch=batch).fits


def test_a_grid_is_its_points() -> None:
    context, batch = np.array([[100.0], [5000.0]]), np.array([1.0, 8.0, 900.0])
    grid = rl.memory(D, context_tokens=context, batch=batch)
    for i, c in enumerate((100, 5000)):
        for j, b in enumerate((1, 8, 900)):
            point = rl.memory(D, context_tokens=c, batch=b)
            assert np.asarray(grid.fits)[i, j] == point.fits
            assert np.asarray(grid.kv_bytes)[i, j] == point.kv_bytes
            assert np.asarray(grid.short_by_bytes)[i, j] == point.short_by_bytes
            assert np.broadcast_to(grid.max_batch, (2, 3))[i, j] == point.max_batch
            assert np.broadcast_to(grid.max_context_tokens, (2, 3))[i, j] == point.max_context_tokens


@pytest.mark.parametrize(("context", "mib"), [(512, 13.0), (32768, 139.0)])
def test_a_window_caps_what_its_layers_hold(context: int, mib: float) -> None:
    """22 · min(context, 512) + 4 · context tokens of 2 · 256 · 2 B."""
    assert rl.kv_bytes(GEMMA, context_tokens=context, kv="f16") == mib * 2**20
    assert rl.kv_bytes(GEMMA, context_tokens=context, kv="f16", policy="allocated") == 26 * context * 1024


def test_frames_carry_what_was_asked_beside_what_came_out() -> None:
    frame = rl.decode(D, context_tokens=[[100.0], [200.0]], batch=[1.0, 2.0, 3.0]).to_frame()
    assert frame["context_tokens"].tolist() == [100, 100, 100, 200, 200, 200]
    assert frame["batch"].tolist() == [1, 2, 3] * 2
    assert frame["seconds"].tolist() == [
        rl.decode(D, context_tokens=c, batch=b).seconds for c in (100, 200) for b in (1, 2, 3)
    ]
    assert rl.memory(D, context_tokens=[1, 10**9]).to_frame()["fits"].tolist() == [True, False]
    assert len(rl.predict([D, D], prompt_tokens=8, output_tokens=2).to_frame()) == 2
