"""The oracle that counts recurrent mixers is itself right: outputs against a twin, counts by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle_recurrent import Delta, Lightning, Mamba1, Mamba2, Mixer

T, D = 7, 12
MIXERS: dict[str, Mixer] = {
    "mamba-1": Mamba1(D, d_inner=10, d_state=4, d_conv=3, dt_rank=2),
    "mamba-2": Mamba2(D, n_heads=6, d_head=5, n_groups=2, d_state=4, d_conv=4),
    "delta": Delta(D, n_key_heads=2, d_key=4, n_value_heads=6, d_value=5, d_conv=4),
    "lightning": Lightning(D, n_heads=3, d_head=4),
}
X = np.random.default_rng(1).standard_normal((T, D))


@pytest.mark.parametrize("mixer", MIXERS.values(), ids=MIXERS)
def test_token_by_token_gives_what_all_tokens_at_once_give(mixer: Any) -> None:
    np.testing.assert_allclose(mixer.run(X)[0], mixer.at_once(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("mixer", MIXERS.values(), ids=MIXERS)
def test_a_token_changes_nothing_before_it(mixer: Any) -> None:
    changed = X.copy()
    changed[4] += 1.0
    before, after = mixer.run(X)[0], mixer.run(changed)[0]
    assert np.array_equal(before[:4], after[:4])
    assert np.all(np.abs(before[4:] - after[4:]).max(axis=1) > 1e-9)


def test_every_part_counts_two_for_a_multiply_add() -> None:
    by_hand = {
        # 2·(12·20, 10·3, 10·(2 + 8), 2·10, 10·4, 10·4, 10·12) a token
        "mamba-1": {"in": 480, "conv": 60, "x": 200, "dt": 40, "update": 80, "read": 80, "out": 240},
        # 30 wide inside, 30 + 2·2·4 = 46 channels: 2·(12·(30 + 46 + 6), 46·4, 6·5·4, 6·5·4, 30·12)
        "mamba-2": {"in": 1968, "conv": 368, "update": 240, "read": 240, "out": 720},
        # 16 + 30 = 46 channels: 2·(12·(46 + 30), 12·12, 46·4, 6·4·5, twice 6·4·5, 30·12)
        "delta": {"in": 1824, "ba": 288, "conv": 368, "update": 240, "read": 480, "out": 720},
        # 2·(12·36, 12·12, 3·4·4, 3·4·4, 12·12)
        "lightning": {"in": 864, "out_gate": 288, "update": 96, "read": 96, "out": 288},
    }
    for name, per_token in by_hand.items():
        assert MIXERS[name].run(X)[1] == {part: T * flops for part, flops in per_token.items()}, name


def test_what_is_kept_does_not_grow() -> None:
    kept = {name: mixer.run(X)[2] for name, mixer in MIXERS.items()}
    assert kept["mamba-1"] == {"state": 10 * 4, "conv": 10 * 2}
    assert kept["mamba-2"] == {"state": 6 * 5 * 4, "conv": 46 * 3}
    assert kept["delta"] == {"state": 6 * 4 * 5, "conv": 46 * 3}
    assert kept["lightning"] == {"state": 3 * 4 * 4}
