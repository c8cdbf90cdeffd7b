"""Before a launch: rooms and rates, settings that do what they are suggested for, states that follow from the numbers."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import roofline as rl
from roofline.answers.checklist import Checklist, alarm_s, checklist
from roofline.answers.checklist.capacity import capacity_of
from roofline.answers.checklist.live import live_of
from roofline.answers.checklist.settings import most_within, settings_of
from roofline.answers.checklist.shortage import changes_of
from roofline.answers.serving.service import Service
from roofline.answers.whatif import scaled
from roofline.specs.workload import Workload

SPREAD = Workload.lognormal(prompt_mean=1000, output_mean=200)


def deployment(model: str = "llama-3.1-8b", chip: str = "h100-sxm-80gb", engine: str = "vllm") -> rl.Deployment:
    return rl.Deployment(model=rl.model(model), hardware=rl.hardware(chip), engine=engine)


def service(d: rl.Deployment, w: Workload, n_replicas: int = 1) -> Service:
    found = Service.of(d, w, n_replicas, "random")
    assert found is not None
    return found


def asked(rate: float, w: Workload = SPREAD, d: rl.Deployment | None = None, **more: object) -> Checklist:
    return checklist(d or deployment(), w, rate_per_s=rate, **({"engines": ()} | more))  # type: ignore[arg-type]


# room


def test_room_by_hand() -> None:
    """Prompts of 2,048 and answers of 256 hold 2,048 + 128 = 2,176 tokens in the mean, 136 pages of 16, and 2,303 at the
    end, 144 pages: of the pages the engine has, so many requests.
    """
    s = service(deployment(), Workload.fixed(prompt_tokens=2048, output_tokens=256))
    room = capacity_of(s, Workload.fixed(prompt_tokens=2048, output_tokens=256), rate_per_s=1.0)
    tokens = float(rl.memory(deployment(), context_tokens=1).kv_tokens)
    assert room.kv_tokens == tokens // 16 * 16
    assert (room.held_mean, room.held_p95) == (136 * 16, 144 * 16)
    assert room.seqs_mean == room.seqs_safe == tokens // 2176
    assert room.seqs_p95 == tokens // 2304


def test_the_cache_fills_where_the_simulation_begins_to_lose_pages() -> None:
    """Well below the rate none is lost, well above it some are."""
    d = deployment(chip="rtx-4090")
    w = Workload.lognormal(prompt_mean=300, output_mean=600, prompt_cv=0.5, output_cv=0.5)
    room = capacity_of(service(d, w), w, rate_per_s=0.1)
    assert room.full_rate_per_s is not None
    below, above = (
        rl.serve(d, w, rate_per_s=f * room.full_rate_per_s, method="simulation", n_runs=1, n_requests=1500).preemptions
        for f in (0.6, 1.3)
    )
    assert below == 0.0
    assert (above or 0.0) > 0.0


def test_what_never_fills_the_cache_has_no_rate_at_which_it_does() -> None:
    w = Workload.fixed(prompt_tokens=4000, output_tokens=2)
    assert capacity_of(service(deployment(), w), w, rate_per_s=1.0).full_rate_per_s is None


def test_two_replicas_fill_at_twice_the_rate() -> None:
    one, two = (capacity_of(service(deployment(), SPREAD, n), SPREAD, rate_per_s=n * 5.0) for n in (1, 2))
    assert one.full_rate_per_s is not None
    assert two.full_rate_per_s == pytest.approx(2 * one.full_rate_per_s, rel=1e-6)
    assert two.n_seq == pytest.approx(one.n_seq, rel=1e-6)
    assert one.n_seq < one.n_seq_p95 < one.n_seq_p99


def test_concurrency_is_that_of_the_service() -> None:
    c = asked(5.0)
    assert c.capacity is not None
    assert c.serving.method == "closed form"
    assert c.capacity.n_seq == pytest.approx(float(c.serving.n_seq), rel=1e-4)


# now


@pytest.mark.parametrize("chip", ["h100-sxm-80gb", "l40s"])
@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_what_a_token_takes_now_is_what_it_takes_in_the_mean(chip: str, load: float) -> None:
    d = deployment(chip=chip)
    rate = load * rl.serve(d, SPREAD, rate_per_s=0.1, method="closed form").saturation_per_s
    at = rl.serve(d, SPREAD, rate_per_s=rate, method="closed form")
    live = live_of(service(d, SPREAD), float(at.n_seq))
    held = float(at.kv_use) * capacity_of(service(d, SPREAD), SPREAD, rate_per_s=rate).kv_tokens
    now = live.tpot_s(n_seq=float(at.n_seq), kv_tokens=held, prompt_tokens_per_s=rate * SPREAD.mean_prompt_tokens)
    assert now == pytest.approx(float(at.tpot_mean_s), rel=0.1)


def test_at_its_own_state_the_line_is_the_law() -> None:
    s = service(deployment(), SPREAD)
    live, c = live_of(s, 20.0), s.lengths.context_mean
    step = float(s.law.alike(np.asarray(20.0), np.asarray(20.0 * c), [], np.asarray(0.0), (0.0, 0.0, 0.0)))
    assert live.step_s(20.0, 20.0 * c) == pytest.approx(step, rel=1e-12)
    assert live.tpot_s(n_seq=20.0, kv_tokens=20.0 * c, prompt_tokens_per_s=1e12) == pytest.approx(20.0 * step)


# settings


def setting(d: rl.Deployment, name: str, w: Workload = SPREAD, **more: object) -> object:
    found = {s.name: s for s in settings_of(d, w, **({"rate_per_s": 5.0, "slo": None} | more))}  # type: ignore[arg-type]
    return found.get(name)


def test_a_cap_on_sequences_is_the_most_that_stay_within_the_limit() -> None:
    """… in eights: one more eight is over it, or over the room."""
    d, s = deployment(), service(deployment(), SPREAD)
    slo = rl.SLO(tpot_p95_s=0.010)
    [cap] = [x for x in settings_of(d, SPREAD, rate_per_s=1.0, slo=slo) if x.name == "max_seqs"]
    most = most_within(s, 0.010)
    assert (cap.reason, cap.usual, cap.figure) == ("tpot", 1024, 0.010)
    assert cap.value == most // 8 * 8
    c = s.lengths.context_mean
    for n, within in ((most, True), (most + 1, False)):
        assert (rl.decode(d, context_tokens=c - 1, batch=n).seconds <= 0.010) == within


def test_a_cap_never_holds_back_the_load_it_is_for() -> None:
    """At a limit that this many sequences miss already, more replicas are the answer, not a queue."""
    assert setting(deployment(), "max_seqs", rate_per_s=10.0, slo=rl.SLO(tpot_p95_s=0.0079)) is None


def test_a_budget_is_suggested_where_it_keeps_what_the_usual_one_misses() -> None:
    d, w, rate = deployment(), Workload.fixed(prompt_tokens=6000, output_tokens=300), 2.0
    usual = rl.serve(d, w, rate_per_s=rate, method="closed form")
    slo = rl.SLO(itl_p99_s=float(usual.itl_p99_s) * 0.6, ttft_p95_s=5.0)
    [budget] = [x for x in settings_of(d, w, rate_per_s=rate, slo=slo) if x.name == "batch_tokens"]
    assert budget.usual == 8192
    assert isinstance(budget.value, int)
    assert budget.value < 8192
    better = replace(d, engine=d.engine.varied(batch_tokens=budget.value))
    assert rl.serve(better, w, rate_per_s=rate, method="closed form").itl_p99_s <= slo.limits["itl_p99_s"]
    assert setting(d, "batch_tokens", w, rate_per_s=rate, slo=rl.SLO(itl_p99_s=9.0)) is None


def test_a_context_is_as_long_as_the_longest_request() -> None:
    w = Workload(np.array([100, 3000]), np.array([50, 200]))
    [found] = [x for x in settings_of(deployment(), w, rate_per_s=1.0, slo=None) if x.name == "context_tokens"]
    assert (found.value, found.usual, found.figure) == (4096, 131072, 3200.0)  # 3,200 in thousands of 1,024
    assert setting(deployment(), "context_tokens", Workload.fixed(prompt_tokens=9, output_tokens=9)) is None


def test_a_narrow_cache_is_suggested_where_it_holds_what_the_wide_one_does_not() -> None:
    d = deployment(chip="rtx-4090")
    room = capacity_of(service(d, SPREAD), SPREAD, rate_per_s=0.1)
    assert room.full_rate_per_s is not None
    found = {x.name: x for x in settings_of(d, SPREAD, rate_per_s=1.1 * room.full_rate_per_s, slo=None)}
    assert (found["kv"].value, found["kv"].usual) == ("fp8", "bf16")
    assert "max_seqs" not in found  # the narrow cache holds more
    assert setting(d, "kv", rate_per_s=0.5 * room.full_rate_per_s) is None


def test_graphs_cover_what_decodes() -> None:
    """SGLang captures graphs of up to 32 sequences on a chip of 48 GB."""
    d = deployment(chip="l40s", engine="sglang")
    at = 0.7 * rl.serve(d, SPREAD, rate_per_s=0.1, method="closed form").saturation_per_s
    [graphs] = [x for x in settings_of(d, SPREAD, rate_per_s=at, slo=None) if x.name == "graph_seqs"]
    assert (graphs.usual, graphs.reason) == (32, "batch")
    assert isinstance(graphs.value, int)
    assert graphs.value % 8 == 0
    assert graphs.value >= graphs.figure > 32


def test_what_does_not_fit_has_no_settings() -> None:
    assert settings_of(deployment("llama-3.1-70b"), SPREAD, rate_per_s=1.0, slo=rl.SLO(tpot_p95_s=1.0)) == ()


# what it is short of


def test_twice_a_ceiling_is_the_same_load_on_such_a_chip() -> None:
    d = deployment()
    found = {v.name: v for v in changes_of(d, SPREAD, rate_per_s=5.0)}
    twice = replace(d, hardware=scaled(d.hardware, peak=2.0))
    s = rl.serve(twice, SPREAD, rate_per_s=5.0, method="closed form")
    assert found["twice the compute"].saturation_per_s == s.saturation_per_s
    assert found["twice the compute"].tpot_p95_s == s.tpot_p95_s
    assert found["as it is"].saturation_gain == 0.0
    assert all(v.saturation_gain > -0.01 for v in found.values())


@pytest.mark.parametrize(("prompt", "output", "short"), [(8000, 2, "compute"), (50, 1000, "bandwidth")])
def test_long_prompts_want_compute_and_long_answers_bandwidth(prompt: int, output: int, short: str) -> None:
    d = deployment(engine="ideal")
    c = asked(0.5, Workload.fixed(prompt_tokens=prompt, output_tokens=output), d)
    assert c.short_of == short


# states


def test_states_follow_from_the_numbers() -> None:
    easy = asked(2.0, slo=rl.SLO(ttft_p95_s=1.0, tpot_p95_s=0.05))
    assert easy.states == {"mix": "ok", "chip": "ok", "cache": "ok"}
    assert easy.ready
    missed = asked(2.0, slo=rl.SLO(tpot_p95_s=0.001))
    assert (missed.states["chip"], missed.ready) == ("fail", False)
    assert set(missed.missed) == {"tpot_p95_s"}
    beyond = asked(1000.0)
    assert (beyond.states["chip"], beyond.states["cache"]) == ("fail", "fail")
    assert beyond.headroom is not None
    assert beyond.headroom < 1.0
    alike = asked(2.0, Workload.fixed(prompt_tokens=100, output_tokens=100))
    assert (alike.states["mix"], alike.ready) == ("note", True)


def test_less_than_a_fifth_to_spare_is_a_note() -> None:
    d = deployment(chip="rtx-4090")
    full = capacity_of(service(d, SPREAD), SPREAD, rate_per_s=0.1).full_rate_per_s or 0.0
    for share, state in ((0.5, "ok"), (0.9, "note"), (1.01, "fail")):
        c = asked(0.1, d=d)
        assert c.capacity is not None
        at = replace(c, rate_per_s=share * full, serving=replace(c.serving, preemptions=None))
        assert at.states["cache"] == state


def test_what_fits_nothing_is_an_answer() -> None:
    c = asked(1.0, d=deployment("llama-3.1-70b"))
    assert (c.ready, c.capacity, c.live, c.changes) == (False, None, None, ())
    assert c.states["chip"] == c.states["cache"] == "fail"
    assert c.memory.short_by_bytes > 0


@pytest.mark.parametrize("rate", [2.0, 1000.0])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-3.1-70b"])
def test_it_is_json_whatever_comes(model: str, rate: float) -> None:
    c = asked(rate, d=deployment(model), slo=rl.SLO(ttft_p95_s=1.0), engines=("vllm", "sglang"))
    body = json.loads(json.dumps(c.to_dict(), allow_nan=False, default=lambda v: v.item()))
    assert body["rate_per_s"] == rate
    assert body["slo_ttft_p95_s"] == 1.0
    assert body["ready"] == c.ready
    assert not any(isinstance(v, dict) for v in body.values())
    assert {s["engine"] for s in body["settings"]} <= {"vllm", "sglang"}


def test_waiting_is_the_rate_times_the_wait() -> None:
    c = asked(5.0)
    assert c.waiting == pytest.approx(5.0 * c.queue_s)
    assert 0.0 < c.queue_s < float(c.serving.ttft_mean_s)


def test_somebody_wakes_at_the_limit_or_at_the_upper_edge() -> None:
    c = asked(5.0, slo=rl.SLO(ttft_p95_s=1.5))
    assert alarm_s(c, "ttft_p95_s") == 1.5
    edge = alarm_s(c, "tpot_p95_s")
    assert edge is not None
    assert edge > float(c.serving.tpot_p95_s)
    assert alarm_s(asked(5.0, d=deployment(engine="ideal")), "tpot_p95_s") is None  # no interval around the ideal


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), [1.0, 2.0], "x"])
def test_a_rate_is_one_number_above_0(rate: object) -> None:
    with pytest.raises(rl.SpecError):
        checklist(deployment(), SPREAD, rate_per_s=rate)  # type: ignore[arg-type]
