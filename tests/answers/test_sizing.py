"""Sizing: what a search keeps, drops and ranks; many candidates at once are each of them; the questions turned round."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import roofline as rl
from roofline.answers.serving import serve
from roofline.answers.serving.closed import closed_form
from roofline.answers.serving.lengths import Lengths
from roofline.answers.serving.steady import Rules
from roofline.answers.sizing import Sizing, largest_rate, least_memory_fraction, longest_prompt, offline, size
from roofline.answers.sizing.curves import LOADS, curves
from roofline.answers.sizing.stack import Stages, stacked
from roofline.answers.steps import pass_laws, step_law
from roofline.errors import SpecError
from roofline.specs.arrivals import Gamma, Piecewise
from roofline.specs.workload import Workload
from roofline.timing.steplaw import PlainLaw

H100, H200, L4, L40S = (rl.hardware(name) for name in ("h100-sxm-80gb", "h200-sxm-141gb", "l4", "l40s"))
LLAMA = rl.model("llama-3.1-8b")
CHAT = Workload.lognormal(prompt_mean=1000, output_mean=200)
SLO = rl.SLO(ttft_p95_s=1.0, tpot_p95_s=0.05)
ENGINE = PlainLaw(
    matmul_params=7.5e9, weight_bytes=16.06e9, kv_bytes_per_token=131072, n_layers=32, heads_dim=4096,
    peak_flops_per_s=593.4e12, hbm_bytes_per_s=2.68e12, step_s=0.003,
)  # fmt: skip


@pytest.fixture(scope="module")
def found() -> Sizing:
    return size(
        LLAMA, hardware=[H100, H200, L4, L40S], workload=CHAT, slo=SLO, rate_per_s=25.0, plans=[rl.Plan(), rl.Plan(tp=2)],
        formats=[("bf16", "bf16"), ("fp8", "fp8")], simulate=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "gpt-oss-20b", "qwen3-30b-a3b", "llama-4-scout-17b-16e", "gemma-3-27b"]
)
def test_laws_side_by_side_are_each_of_them(name: str) -> None:
    """Of 3 chips, 3 plans and 2 formats, at as many points as there are laws."""
    plans = (rl.Plan(), rl.Plan(tp=2), rl.Plan(dp=2))
    ds = [rl.Deployment(model=rl.model(name), hardware=chip, plan=plan, weights=weights, engine="vllm")
          for chip in (H100, L4, L40S) for plan in plans for weights in ("bf16", "fp8")]  # fmt: skip
    many = stacked([pass_laws(d)[0] for d in ds], [d.plan.dp for d in ds]).of_points(np.arange(len(ds)))
    n, chunk = np.linspace(1.0, 40.0, len(ds)), (700.0, 100.0, 0.5)
    within = [n * w.seen(2000) for w in many.windows]
    alone = [float(step_law(d).alike(b, b * 2000.0, [float(w[i]) for w in within], 1.5, chunk))
             for i, (d, b) in enumerate(zip(ds, n.tolist(), strict=True))]  # fmt: skip
    assert many.alike(n, n * 2000.0, within, 1.5, chunk).tolist() == pytest.approx(alone, rel=1e-12)


def test_pipelines_side_by_side_are_each_of_them() -> None:
    ds = [rl.Deployment(model=LLAMA, hardware=chip, plan=rl.Plan(pp=2), engine="vllm") for chip in (H100, L40S)]
    laws = [pass_laws(d) for d in ds]
    many = Stages(tuple(stacked([law[j] for law in laws], [1, 1]) for j in range(2)), np.array([2.0, 2.0]))
    at = many.of_points(np.array([1, 0, 1]))
    n = np.array([1.0, 3.0, 8.0])
    alone = [
        float(step_law(ds[i]).alike(b, b * 900.0, (), 1.0, (512.0, 0.0, 1.0)))
        for i, b in zip((1, 0, 1), n, strict=True)
    ]
    assert at.alike(n, n * 900.0, (), 1.0, (512.0, 0.0, 1.0)).tolist() == pytest.approx(alone, rel=1e-12)


def test_curves_are_the_closed_form() -> None:
    """To the tolerance of a ranking, at every load of two settings."""
    w = Lengths.of(CHAT.prompt_tokens, CHAT.output_tokens)
    budgets = np.array([512.0, 4096.0])
    rules = Rules(batch_tokens=budgets, max_seqs=np.full(2, 256.0), kv_tokens=np.full(2, 430000.0))
    drawn = curves(lambda which: ENGINE, w, rules, ("ttft_p95_s", "tpot_p95_s"))
    for i, budget in enumerate(budgets.tolist()):
        one = closed_form(ENGINE, w, Rules.of(batch_tokens=budget, max_seqs=256, kv_tokens=430000), drawn.rate_per_s[i])
        assert drawn.rate_per_s[i] == pytest.approx(LOADS * one.saturation_per_s, rel=1e-3)
        assert drawn.times["ttft_p95_s"][i] == pytest.approx(one.ttft_p95_s, rel=5e-3)
        assert drawn.times["tpot_p95_s"][i] == pytest.approx(one.tpot_p95_s, rel=5e-3)


def test_every_choice_serves_the_rate_within_the_objective(found: Sizing) -> None:
    """As `serve` says of it: on the lines between loads, so to 2 %."""
    assert len(found.choices) > 8
    for choice in found.choices:
        if choice.split:
            continue
        s = serve(
            choice.candidate.deployment, CHAT, rate_per_s=25.0, n_replicas=choice.n_replicas, method="closed form"
        )
        assert s.stable
        for name, limit in SLO.limits.items():
            assert float(getattr(s, name)) <= limit * 1.02
            assert choice.times[name] == pytest.approx(float(getattr(s, name)), rel=0.04)
        assert 0.0 <= choice.headroom < 1.0
        if choice.n_replicas > 1:  # one fewer would not do
            assert (choice.n_replicas - 1) * choice.max_rate_per_s < 25.0


def test_the_cheapest_comes_first_and_costs_what_its_chips_cost(found: Sizing) -> None:
    """6 chips at 2 USD/h for 25 requests/s of 1,200 tokens: 12 / 3600 / (25 · 1200) · 1e6 = 0.111 USD."""
    usd = [c.usd_per_mtok for c in found.choices if c.usd_per_mtok is not None]
    assert usd == sorted(usd)
    tokens = CHAT.mean_prompt_tokens + CHAT.mean_output_tokens
    for choice in found.choices:
        chip = choice.candidate.deployment.hardware
        if chip.price is None:
            assert choice.usd_per_mtok is None
            continue
        per_h = choice.n_chips * chip.price.low_usd_per_h
        assert choice.usd_per_mtok == pytest.approx(per_h / 3600.0 / (25.0 * tokens) * 1e6)


def test_the_best_are_simulated_and_keep_the_objective(found: Sizing) -> None:
    best = found.best
    assert best is not None
    assert set(best.simulated) == {"ttft_p95_s", "tpot_p95_s", "tpot_mean_s"}
    assert SLO.missed(best.simulated) == {}
    assert best.simulated["tpot_mean_s"] == pytest.approx(best.times["tpot_mean_s"], rel=0.1)
    assert not any(choice.simulated for choice in found.choices[1:])


def test_no_point_of_the_front_beats_another_in_both(found: Sizing) -> None:
    user = [p["tokens_per_s_per_user"] for p in found.pareto]
    chip = [p["output_tokens_per_s_per_chip"] for p in found.pareto]
    assert user == sorted(user, reverse=True)
    assert chip == sorted(chip)
    assert any(p["meets"] for p in found.pareto)


def test_twice_the_rate_takes_at_most_twice_the_replicas_and_never_fewer(found: Sizing) -> None:
    twice = size(
        LLAMA, hardware=[H100], workload=CHAT, slo=SLO, rate_per_s=50.0, plans=[rl.Plan()], formats=[("bf16", "bf16")],
        simulate=0, split=False,
    )  # fmt: skip
    once = size(
        LLAMA, hardware=[H100], workload=CHAT, slo=SLO, rate_per_s=25.0, plans=[rl.Plan()], formats=[("bf16", "bf16")],
        simulate=0, split=False,
    )  # fmt: skip
    a, b = once.choices[0], twice.choices[0]
    assert a.n_replicas <= b.n_replicas <= 2 * a.n_replicas


def test_what_is_dropped_says_why() -> None:
    """70B on an L4; a plan that splits no heads; a token that takes longer than it may; requests longer than the cache."""
    big = size(rl.model("llama-3.1-70b"), hardware=[L4], workload=CHAT, slo=SLO, rate_per_s=1.0,
               plans=[rl.Plan(), rl.Plan(tp=7)], simulate=0)  # fmt: skip
    assert big.choices == ()
    assert big.best is None
    assert "do not fit" in big.dropped[0].why
    assert "tp=7" in big.dropped[1].why
    fast = size(LLAMA, hardware=[L4], workload=CHAT, slo=rl.SLO(tpot_p95_s=0.01), rate_per_s=1.0, plans=[rl.Plan()],
                simulate=0)  # fmt: skip
    assert "tpot_p95_s of an almost idle replica" in fast.dropped[0].why
    long = size(LLAMA, hardware=[L4], workload=Workload.fixed(prompt_tokens=60_000, output_tokens=100), slo=SLO,
                rate_per_s=0.01, plans=[rl.Plan()], simulate=0)  # fmt: skip
    assert "100.0% of the requests are longer" in long.dropped[0].why


def test_recorded_arrivals_are_sized_for_their_fullest_minute() -> None:
    """Azure's conversations: the fullest minute has 1.54 times the mean (published; where minutes begin is not said)."""
    trace = rl.workload("azure-conv")
    asked: dict[str, Any] = {"hardware": [H100], "slo": SLO, "rate_per_s": 40.0, "plans": [rl.Plan()], "simulate": 0,
                             "split": False}  # fmt: skip
    found = size(LLAMA, workload=trace, **asked)
    assert found.peak_rate_per_s / found.rate_per_s == pytest.approx(1.54, abs=0.02)
    best = found.choices[0]
    assert best.n_replicas == math.ceil(1e-9 + found.peak_rate_per_s / best.max_rate_per_s)
    assert best.n_replicas_mean == math.ceil(1e-9 + 40.0 / best.max_rate_per_s) < best.n_replicas


def test_a_moving_rate_is_sized_for_its_busiest_piece_and_bursts_take_more_chips() -> None:
    """Hours at half, once and one and a half times the mean; gaps of four times the variance."""
    asked: dict[str, Any] = {"hardware": [H100], "slo": rl.SLO(ttft_p95_s=0.2), "rate_per_s": 150.0, "plans": [rl.Plan()],
                             "simulate": 0, "split": False}  # fmt: skip
    moving = size(LLAMA, workload=CHAT.arriving(Piecewise((0.5, 1.0, 1.5), 3600.0)), **asked)
    assert moving.peak_rate_per_s == pytest.approx(225.0)
    steady, bursty = (size(LLAMA, workload=CHAT.arriving(Gamma(scv)), **asked) for scv in (1.0, 4.0))
    assert bursty.choices[0].n_replicas > steady.choices[0].n_replicas


def _goodput(tpot_s: float, budgets: list[float]) -> float:
    """Split over the best of one pool, on the engine of the published comparison."""
    trace = rl.workload("azure-conv")
    w = Lengths.of(trace.prompt_tokens, trace.output_tokens)
    slo = rl.SLO(ttft_p95_s=1.0, tpot_p95_s=tpot_s)
    n = len(budgets)
    rules = Rules(batch_tokens=np.array(budgets), max_seqs=np.full(n, 256.0), kv_tokens=np.full(n, 430000.0))
    whole = curves(lambda which: ENGINE, w, rules, tuple(slo.limits))
    reads = curves(lambda which: ENGINE, w.prompts_alone(), rules, ("ttft_p95_s",))
    decodes = curves(lambda which: ENGINE, w.answers_alone(), rules, ("tpot_p95_s",))
    one, p, d = (max(c.limit(i, slo).rate_per_s for i in range(n)) for c in (whole, reads, decodes))
    return 1.0 / (1.0 / p + 1.0 / d) / one


@pytest.mark.parametrize(
    ("tpot_ms", "published", "within"),
    [(10.0, 1.52, 0.3), (12.5, 1.00, 0.08), (15.0, 0.75, 0.08), (20.0, 0.86, 0.08), (30.0, 0.81, 0.08)],
)
def test_splitting_pays_below_some_forty_per_cent_above_the_decode_floor(
    tpot_ms: float, published: float, within: float
) -> None:
    """A decode floor of 9 ms (3 + 16.06 GB / 2.68 TB/s), budgets from 384 tokens on; smaller chunks do as well. At 10 ms a
    TPOT 2 % shorter is a fifth of what is left above the floor, and budgets from 332 on would meet the published ratio."""
    found = _goodput(1e-3 * tpot_ms, [384.0, 512.0, 768.0, 1024.0, 2048.0, 4096.0])
    assert found == pytest.approx(published, rel=within)
    assert _goodput(0.010, [256.0, 384.0, 512.0]) < 1.0


def test_pools_stand_in_the_proportion_of_what_each_can_do(found: Sizing) -> None:
    pairs = [choice for choice in found.choices if choice.split]
    assert pairs
    for choice in pairs:
        assert choice.n_prefill >= 1
        assert choice.prefill is not None
        assert choice.prefill.deployment.plan == choice.candidate.deployment.plan
        assert choice.n_chips == (choice.n_prefill + choice.n_replicas) * choice.candidate.deployment.n_chips
        assert SLO.missed(choice.times) == {}


def test_a_job_takes_its_tokens_over_what_full_steps_give() -> None:
    """4 replicas of a saturation λ: n / (4·λ) seconds; at 2 USD/h a chip, 8 USD an hour."""
    d = rl.Deployment(model=LLAMA, hardware=H100, engine="vllm")
    most = serve(d, CHAT, rate_per_s=1.0, method="closed form").saturation_per_s
    job = offline(d, CHAT, n_requests=1_000_000, n_replicas=4, usd_per_chip_h=2.0)
    assert job.seconds == pytest.approx(1e6 / (4.0 * most))
    assert job.usd == pytest.approx(8.0 * job.seconds / 3600.0)
    by = offline(d, CHAT, n_requests=1_000_000, deadline_s=job.seconds * 0.99)
    assert by.n_replicas == 5
    assert by.seconds <= job.seconds * 0.99
    with pytest.raises(SpecError, match="either deadline_s"):
        offline(d, CHAT, n_requests=10)


def test_the_largest_rate_just_keeps_the_objective() -> None:
    d = rl.Deployment(model=LLAMA, hardware=H100, engine="vllm")
    slo = rl.SLO(tpot_p95_s=0.02, ttft_p95_s=1.0)
    best = largest_rate(d, CHAT, slo)
    at, over = (serve(d, CHAT, rate_per_s=best * f, method="closed form") for f in (0.999, 1.02))
    assert slo.missed({n: float(getattr(at, n)) for n in slo.limits}) == {}
    assert slo.missed({n: float(getattr(over, n)) for n in slo.limits}) != {}
    assert largest_rate(d, CHAT, rl.SLO(tpot_p95_s=0.001)) == 0.0


def test_the_longest_prompt_just_keeps_the_objective() -> None:
    d = rl.Deployment(model=LLAMA, hardware=H100, engine="vllm")
    slo = rl.SLO(ttft_p95_s=1.0)
    longest = longest_prompt(d, slo, output_tokens=100, rate_per_s=1.0)

    def ttft(prompt: int) -> float:
        w = Workload.fixed(prompt_tokens=prompt, output_tokens=100)
        return float(serve(d, w, rate_per_s=1.0, method="closed form").ttft_p95_s)

    assert ttft(longest) <= 1.0 < ttft(longest + 200)
    assert longest_prompt(d, rl.SLO(ttft_p95_s=1e-4), output_tokens=100, rate_per_s=1.0) == 0


def test_the_least_memory_holds_the_weights_and_the_cache_of_the_load() -> None:
    """16.06 GB of weights are a fifth of the chip; a hundredth less than the answer does not keep the objective."""
    d = rl.Deployment(model=LLAMA, hardware=H100, engine="vllm")
    least = least_memory_fraction(d, CHAT, SLO, rate_per_s=10.0)
    assert least is not None
    assert 0.2 < least < 0.7
    more = least_memory_fraction(d, CHAT, SLO, rate_per_s=18.0)
    assert more is not None
    assert more > least
    assert least_memory_fraction(d, CHAT, SLO, rate_per_s=1000.0) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rate_per_s": 0.0}, "rate_per_s"),
        ({"rate_per_s": math.nan}, "rate_per_s"),
        ({"rate_per_s": [1.0, 2.0]}, "one number"),
        ({"hardware": []}, "at least one chip"),
        ({"hardware": ["h100"]}, "Hardware"),
        ({"slo": None}, "SLO"),
        ({"workload": None}, "Workload"),
        ({"price": "medium"}, '"low" or "high"'),
        ({"engine": 3}, "Engine"),
    ],
)
def test_questions_that_make_no_sense_are_refused(changes: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"hardware": [H100], "workload": CHAT, "slo": SLO, "rate_per_s": 1.0, "plans": [rl.Plan()]}
    with pytest.raises(SpecError, match=said):
        size(LLAMA, **(asked | changes))


@pytest.mark.parametrize("limits", [{}, {"ttft_p95_s": 0.0}, {"tpot_p95_s": math.nan}, {"tpot_mean_s": -1.0}])
def test_objectives_that_nothing_keeps_or_misses_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(SpecError, match="SLO"):
        rl.SLO(**limits)


def test_progress_is_told_and_ends_at_all_of_it() -> None:
    seen: list[tuple[int, int]] = []
    size(LLAMA, hardware=[H100, L4], workload=CHAT, slo=SLO, rate_per_s=1.0, plans=[rl.Plan()], simulate=0,
         progress=lambda done, total: seen.append((done, total)))  # fmt: skip
    assert seen == [(0, 2), (1, 2), (2, 2)]
