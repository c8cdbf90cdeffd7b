"""What a prediction comes to, in sentences: does it fit, what binds, which single change helps most, where it leads."""

from __future__ import annotations

from collections.abc import Callable

from roofline.answers.levers import Lever, decode_limit, levers
from roofline.answers.prediction import Prediction, again
from roofline.num import Num
from roofline.timing.clock import Timing
from roofline.units import format_bytes
from roofline.views.cli.words import percent, seconds, three, usable

__all__ = ["verdict_of"]


def verdict_of(p: Prediction) -> list[str]:
    """What binds, by how much, and the single changes that would help most."""
    lines = []
    if not p.memory.fits:
        from roofline.answers.fitting import ways_to_fit

        ways = "; ".join(ways_to_fit(p.deployment, lambda d: again(p, d).memory)) or "no single change tried here"
        may = usable(p.deployment, p.memory)
        over = format_bytes(float(p.memory.short_by_bytes))
        lines.append(f"It does not fit: {over} too much{f' ({may})' if may else ''}. Would fit: {ways}.")
    lines.append(_binds("Prefill", p.prefill))
    if p.decode is not None:
        lines.append(_binds("Decode", p.decode))
    found = levers(p)[:3]
    if found:
        lines.append("Single changes that would help most:")
        width = max(len(v.name) for v in found)
        lines.extend(f"  {i}. {v.name:<{width}}   {_effect(v, p)}" for i, v in enumerate(found, 1))
    if p.decode is not None:
        lines.append(_asymptote(p))
    return lines


def _binds(phase: str, t: Timing) -> str:
    """What binds most of the time, and how far the pass as a whole stands from the ridge where that says the same."""
    if t.bound == "overhead":
        return f"{phase} is limited by launches."
    bound_s, word = _LIMITS[t.bound](t)
    share = f"{phase} is limited by {word} for {percent(bound_s / t.seconds)} of its time{_besides(t)}"
    if t.bound not in ("compute", "memory"):
        return f"{share}."
    away = t.intensity / t.ridge if t.bound == "compute" else t.ridge / t.intensity
    if away <= 1:
        return f"{share}."
    side = "above" if t.bound == "compute" else "below"
    return f"{share}: its FLOP per byte stand {three(away)}× {side} the ridge."


def _besides(t: Timing) -> str:
    """What else takes a share of the time worth a word: links, stages that wait."""
    said = []
    if t.bound != "link" and float(t.exposed_link_s / t.seconds) >= WORTH_A_WORD:
        said.append(f"links between chips {percent(t.exposed_link_s / t.seconds)}")
    idle = getattr(t, "bubble_s", 0.0)
    if float(idle / t.seconds) >= WORTH_A_WORD:
        said.append(f"a stage that waits {percent(idle / t.seconds)}")
    return f" ({', '.join(said)})" if said else ""


WORTH_A_WORD = 0.03

_LIMITS: dict[str, Callable[[Timing], tuple[Num, str]]] = {
    "compute": lambda t: (t.compute_bound_s, "compute"),
    "memory": lambda t: (t.memory_bound_s, "memory bandwidth"),
    "link": lambda t: (t.exposed_link_s, "links between chips"),
    "tier": lambda t: (t.tier_exposed_s, "the memory it is offloaded to"),
}


def _effect(v: Lever, p: Prediction) -> str:
    parts = [f"whole request {_change(v.e2e_s, p.e2e_s)}"]
    if v.tpot_s is not None and p.tpot_s is not None and abs(v.tpot_s / float(p.tpot_s) - 1) > 0.005:
        parts.insert(0, f"TPOT {seconds(v.tpot_s)} ({_change(v.tpot_s, p.tpot_s)})")
    if abs(v.ttft_s / float(p.ttft_s) - 1) > 0.005:
        parts.insert(0, f"TTFT {seconds(v.ttft_s)} ({_change(v.ttft_s, p.ttft_s)})")
    return ", ".join(parts)


def _change(after: float, before: Num) -> str:
    return f"{100 * (after / float(before) - 1):+.0f} %".replace("-", "−")


def _asymptote(p: Prediction) -> str:
    """Where batching leads: weights are shared by ever more sequences, caches by none."""
    context = float(p.request.n_new) + (p.output_tokens - 2) / 2
    remembers = p.deployment.model.remembers
    memory_tokens = p.request.n_memory if remembers else None
    n_new = 1.0 if p.drafting is None else p.drafting.n_drafts + 1.0
    limit = decode_limit(p.deployment, context_tokens=context, memory_tokens=memory_tokens, n_new=n_new)
    ridge = p.prefill.ridge
    tends = f"As the batch grows, decode's intensity at this context tends to {three(limit)} FLOP/B"
    if limit < ridge:
        return f"{tends}: no batch lifts it past the ridge of {three(ridge)}."
    return f"{tends}: a large enough batch lifts it past the ridge of {three(ridge)}."
