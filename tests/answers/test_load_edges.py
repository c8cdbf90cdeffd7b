"""The edges of load: answers of one token, requests nothing holds, prices and settings that make no sense."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import roofline as rl
from roofline.answers.serving import serve
from roofline.answers.serving.pools import serve_split
from roofline.answers.sizing import least_memory_fraction, longest_prompt, offline, size
from roofline.errors import SpecError
from roofline.specs.arrivals import Piecewise, Recorded
from roofline.specs.sessions import Sessions
from roofline.specs.workload import Workload

D = rl.Deployment(model=rl.model("llama-3.1-8b"), hardware=rl.hardware("h100-sxm-80gb"), engine="vllm")
SLO = rl.SLO(ttft_p95_s=1.0)
ONE = Workload.fixed(prompt_tokens=512, output_tokens=1)
TWO = Workload.fixed(prompt_tokens=512, output_tokens=32)
ANY_WORKLOAD: Any = Workload  # called with what their types forbid
ANY_TWO: Any = TWO
ANY_PIECEWISE: Any = Piecewise
ANY_PROMPT: Any = longest_prompt
ANY_MEMORY: Any = least_memory_fraction
ANY_JOB: Any = offline
ANY_SPLIT: Any = serve_split


@pytest.mark.parametrize("method", ["closed form", "simulation"])
def test_after_an_answer_of_one_token_there_is_nothing_to_wait_for(method: Any) -> None:
    """TPOT and gaps are 0 by both answers, an objective on them is kept, and the whole request is its first token."""
    s = serve(D, ONE, rate_per_s=5.0, method=method, n_requests=300, n_runs=1)
    assert (s.tpot_mean_s, s.tpot_p99_s, s.itl_p99_s) == (0.0, 0.0, 0.0)
    assert s.e2e_mean_s == pytest.approx(float(s.ttft_mean_s))
    assert math.isinf(float(s.tokens_per_s_per_user))
    assert not any(isinstance(v, float) and math.isnan(v) for v in s.to_dict().values())
    two = serve_split(prefill=D, decode=D, workload=ONE, rate_per_s=5.0, method=method, n_requests=300, n_runs=1)
    assert two.tpot_p95_s == 0.0


def test_answers_of_one_token_are_sized() -> None:
    found = size(D.model, hardware=[D.hardware], workload=ONE, slo=rl.SLO(ttft_p95_s=1.0, tpot_p95_s=0.05), rate_per_s=5.0,
                 plans=[rl.Plan()], simulate=1)  # fmt: skip
    assert found.best is not None
    assert found.best.times["tpot_p95_s"] == found.best.simulated["tpot_p95_s"] == 0.0
    assert found.pareto == ()


def test_percentiles_are_in_order_where_hardly_anybody_comes() -> None:
    for chip, prompt in (("l4", 500), ("l4", 2048), ("h100-sxm-80gb", 500)):
        d = rl.Deployment(model=D.model, hardware=rl.hardware(chip), engine="vllm")
        s = serve(d, Workload.fixed(prompt_tokens=prompt, output_tokens=1), rate_per_s=0.01, method="closed form")
        assert s.ttft_p50_s <= s.ttft_p95_s <= s.ttft_p99_s


def test_a_tpot_rises_through_the_bends_of_a_pipeline() -> None:
    """From a few more than one sequence at once to two: the round of two stages bends there."""
    d = rl.Deployment(model=D.model, hardware=D.hardware, engine="vllm", plan=rl.Plan(pp=2))
    w = Workload.fixed(prompt_tokens=30_000, output_tokens=500)
    s = serve(d, w, rate_per_s=np.linspace(0.12, 0.2, 33), method="closed form")
    times = np.asarray(s.tpot_p95_s)
    assert (np.diff(times) > -0.02 * times[:-1]).all()


def test_a_job_of_requests_that_nothing_holds_is_refused() -> None:
    w = Workload(np.array([100, 10**6]), np.array([5, 5]))
    with pytest.raises(SpecError, match=r"50\.0% of the requests are longer"):
        offline(D, w, n_requests=1000, n_replicas=1)


def test_conversations_have_a_least_memory() -> None:
    """At least what holds the weights: a fifth of the chip."""
    least = least_memory_fraction(D, Sessions(turns=3, user_tokens=100, output_tokens=100), SLO, rate_per_s=1.0)  # type: ignore[arg-type]
    assert least is not None
    assert 0.2 < least < 0.5


@pytest.mark.parametrize(
    "changes",
    [
        {"usd_per_chip_h": {"h100-sxm-80gb": -1.0}}, {"usd_per_chip_h": {"h100-sxm-80gb": math.nan}}, {"simulate": -1},
        {"simulate": 1.5}, {"split": "no"}, {"plans": []}, {"plans": ["tp1"]}, {"plans": rl.Plan()}, {"formats": ["fp8"]},
        {"formats": []}, {"batch_tokens": [0]}, {"batch_tokens": 512}, {"batch_tokens": ["a"]}, {"max_seqs": [0]},
        {"hardware": None}, {"rate_per_s": 0.0},
    ],
)  # fmt: skip
def test_a_search_for_nonsense_is_refused(changes: dict[str, Any]) -> None:
    asked: dict[str, Any] = {
        "hardware": D.hardware,
        "workload": TWO,
        "slo": SLO,
        "rate_per_s": 1.0,
        "plans": [rl.Plan()],
    }
    with pytest.raises(SpecError):
        size(D.model, **(asked | changes))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ANY_WORKLOAD.fixed(prompt_tokens="abc", output_tokens=1),
        lambda: ANY_WORKLOAD.fixed(prompt_tokens=10**400, output_tokens=1),
        lambda: ANY_TWO.arriving("poisson"),
        lambda: ANY_TWO.arriving(None),
        lambda: ANY_WORKLOAD.uniform(prompt_tokens=5, output_tokens=(1, 2)),
        lambda: ANY_WORKLOAD.uniform(prompt_tokens=(1, 2.5), output_tokens=(1, 2)),
        lambda: ANY_WORKLOAD.lognormal(prompt_mean=1e300, output_mean=1.0),
        lambda: ANY_WORKLOAD.lognormal(prompt_mean=True, output_mean=1.0),
        lambda: ANY_WORKLOAD.of_trace(None),
        lambda: ANY_WORKLOAD(np.array([1]), np.array([1]), block_ids=5),
        lambda: ANY_PIECEWISE("ab", 1.0),
        lambda: ANY_PIECEWISE((1e308, 1e308), 1.0),
        lambda: Recorded(np.array([0.0, 1e300])),
        lambda: Recorded(np.array([0.0, 5e-324])),
        lambda: ANY_PROMPT(D, None, output_tokens=1, rate_per_s=1.0),
        lambda: ANY_PROMPT(D, SLO, output_tokens="a", rate_per_s=1.0),
        lambda: ANY_MEMORY(D, TWO, None, rate_per_s=1.0),
        lambda: ANY_JOB(D, TWO, n_requests=5, n_replicas=1, usd_per_chip_h=math.nan),
        lambda: ANY_JOB(D, TWO, n_requests=5, n_replicas=[1, 2]),
        lambda: ANY_SPLIT(prefill=D, decode=D, workload=TWO, rate_per_s=[5.0, 6.0]),
        lambda: serve(D, TWO, rate_per_s=1e-300, method="simulation"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(make: Any) -> None:
    with pytest.raises(SpecError):
        make()
