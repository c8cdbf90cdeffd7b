"""Plans: what may be asked, what one chip then holds, and errors that list what would work."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.specs.ffns import Moe
from roofline.specs.shard import ExpertShare, share_of

PLAIN = rl.model("llama-3.1-8b")  # 32 heads, 8 KV heads, 14336 wide, 32 layers
EXPERTS = rl.model("deepseek-v3")  # 128 heads, 256 experts of 2048, 61 layers of which 3 are dense


def test_a_chip_of_tp_holds_its_part_of_heads_widths_and_vocabulary() -> None:
    held = share_of(PLAIN, rl.Plan(tp=4)).model
    layer = held.layer_kinds()[0][1]
    assert (layer.mixer.n_heads, layer.mixer.n_kv_heads, layer.ffn.d_ff) == (8, 2, 3584)  # type: ignore[union-attr]
    assert held.vocab_size == 32_064
    assert held.d_model == PLAIN.d_model


def test_kv_heads_are_copied_once_tp_exceeds_them() -> None:
    held = share_of(PLAIN, rl.Plan(tp=16)).model.layer_kinds()[0][1].mixer
    assert (held.n_heads, held.n_kv_heads) == (2, 1)  # type: ignore[union-attr]


def test_experts_are_spread_over_ep_and_split_over_what_is_left() -> None:
    whole = next(x.ffn for _, x in EXPERTS.layer_kinds() if isinstance(x.ffn, Moe))
    for plan, n_held, width, shared in (
        (rl.Plan(tp=8), 256, 256, 256),
        (rl.Plan(tp=8, ep=8), 32, 2048, 256),
        (rl.Plan(tp=2, dp=4, ep=4), 64, 1024, 256),
        (rl.Plan(dp=8, ep=8), 32, 2048, 256),
        (rl.Plan(dp=32, ep=32), 8, 2048, 64),
    ):
        held = next(x.ffn for _, x in share_of(EXPERTS, plan).model.layer_kinds() if isinstance(x.ffn, Moe))
        assert isinstance(held, ExpertShare)
        assert (held.n_held, held.d_ff, held.d_shared) == (n_held, width, shared)
        assert held.n_experts == whole.n_experts == 256
        assert sum(m.n_params for m in held.routed_matrices(7168)) * plan.n_expert_chips == sum(
            m.n_params for m in whole.routed_matrices(7168)
        )


@pytest.mark.parametrize(
    ("n_layers", "pp", "expected"),
    [
        (80, 4, (20, 20, 20, 20)),
        (61, 4, (15, 15, 16, 15)),
        (62, 4, (15, 16, 16, 15)),
        (3, 3, (1, 1, 1)),
        (5, 3, (2, 2, 1)),
    ],
)
def test_layers_left_over_go_to_stages_before_the_last(n_layers: int, pp: int, expected: tuple[int, ...]) -> None:
    """As vLLM's get_pp_indices spreads them (vllm/distributed/utils.py)."""
    assert rl.Plan(pp=pp).layers_of_stages(n_layers) == expected


def test_stages_hold_their_own_layers_and_the_ends_their_tables() -> None:
    plan = rl.Plan(pp=2, stages=(20, 12))
    first, last = (share_of(PLAIN, plan, i) for i in (0, 1))
    assert (first.model.n_layers, last.model.n_layers) == (20, 12)
    assert (first.is_first, first.is_last, last.is_first, last.is_last) == (True, False, False, True)


@pytest.mark.parametrize(
    ("model", "plan", "needles"),
    [
        ("llama-3.1-8b", {"tp": 3}, ("tp=3", "32 query heads", "use tp 1, 2, 4, 8, 16, 32")),
        ("llama-3.1-8b", {"tp": 64}, ("tp=64", "use tp 1, 2, 4, 8, 16, 32")),
        ("qwen2.5-7b", {"tp": 8}, ("28 query heads", "use tp 1, 2, 4")),
        ("llama-3.1-8b", {"pp": 33}, ("pp=33", "32 layers", "at most 32")),
        ("llama-3.1-8b", {"pp": 2, "stages": (20, 20)}, ("stages", "add up to the 32 layers", "got 40")),
        ("llama-3.1-8b", {"tp": 2, "ep": 2}, ("ep=2", "no experts", "ep=1")),
        ("deepseek-v3", {"tp": 1, "dp": 3, "ep": 1}, ("2,048 wide", "3")),
        ("mixtral-8x7b", {"dp": 16, "ep": 16}, ("8 experts, fewer than 16", "use ep 1, 2, 4, 8")),
        ("qwen3-next-80b-a3b", {"cp": 2}, ("cp=2", "delta", "cp=1")),
        ("whisper-large-v3", {"pp": 2}, ("pp=2", "encoder")),
    ],
)
def test_a_plan_that_does_not_suit_says_what_would(model: str, plan: dict[str, Any], needles: tuple[str, ...]) -> None:
    with pytest.raises(rl.PlanError) as caught:
        rl.Deployment(model=rl.model(model), hardware=rl.hardware("h200"), plan=rl.Plan(**plan))
    for needle in needles:
        assert needle in str(caught.value)


@pytest.mark.parametrize(
    ("plan", "needles"),
    [
        ({"tp": 0}, ("tp", "greater than or equal to 1")),
        ({"tp": 2.0}, ("tp", "integer")),
        ({"tp": float("nan")}, ("tp",)),
        ({"tp": True}, ("tp",)),
        ({"tp": 10**9}, ("tp", "4096")),
        ({"tq": 2}, ("tq: unknown key", "tp")),
        ({"tp": 4, "ep": 3}, ("ep: 3", "use one of 1, 2, 4")),
        ({"pp": 2, "stages": (8,)}, ("stages", "expected 2")),
        ({"overlap": 1.5}, ("overlap", "less than or equal to 1")),
    ],
)
def test_a_plan_in_itself_is_checked(plan: dict[str, object], needles: tuple[str, ...]) -> None:
    with pytest.raises(rl.RooflineError) as caught:
        rl.Plan(**plan)  # type: ignore[arg-type]
    for needle in needles:
        assert needle in str(caught.value)


def test_more_chips_than_any_link_joins_are_refused() -> None:
    with pytest.raises(rl.PlanError, match="up to 8 can be joined"):
        rl.Deployment(model=PLAIN, hardware=rl.hardware("rtx-4090"), plan=rl.Plan(tp=16))
    with pytest.raises(rl.PlanError, match=r"bandwidth of its .* link is not known"):
        rl.Deployment(model=PLAIN, hardware=rl.hardware("xeon-6980p"), plan=rl.Plan(tp=2))
