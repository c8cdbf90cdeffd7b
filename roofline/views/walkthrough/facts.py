"""What no setting moves: the model, the chip, and where their roofline bends."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.answers.memory import memory
from roofline.answers.phases import prefill
from roofline.specs.deployment import Deployment
from roofline.specs.mixers import Latent
from roofline.units import format_bytes, format_si
from roofline.views.walkthrough.figures import ANSWER_TOKENS, whole
from roofline.views.walkthrough.roof import Roof
from roofline.views.walkthrough.settings import LONGEST_PROMPT, Settings
from roofline.views.walkthrough.shown import Shown
from roofline.views.walkthrough.slots import Said, Slots
from roofline.views.words import three

__all__ = ["equal_prompt", "put_facts"]

FARTHEST = 2**24


def put_facts(slots: Slots, s: Settings, shown: Shown, roof: Roof) -> None:
    """Names, sizes and rates; the prompts at which the roof bends and at which attention does half of the work."""
    from roofline import __version__

    d, formats, first = s.deployment, s.deployment.numerics, shown.projections[0]
    equal = equal_prompt(d)
    facts: Mapping[str, Said | int] = {
        "model": d.model.id, "chip": d.hardware.id, "n_layers": d.model.n_layers, "d_model": d.model.d_model,
        "n_heads": shown.mixer.n_heads, "heads": _heads(shown), "weights_format": formats.weights_name,
        "kv_format": formats.kv.name, "weights_held": format_bytes(memory(d, context_tokens=1).weight_bytes),
        "ridge": three(roof.ridge), "dtype": prefill(d, prompt_tokens=1).dtype,
        "peak": format_si(roof.peak_flops_per_s, "FLOP/s"), "bandwidth": format_si(roof.hbm_bytes_per_s, "B/s"),
        "first": first, "d_in": shown.dims[first][0], "d_out": shown.dims[first][1], "answer": ANSWER_TOKENS,
        "knee": "" if s.knee is None else whole(s.knee), "longest": whole(LONGEST_PROMPT),
        "equal": "" if equal is None else whole(float(f"{equal:.3g}")), "version": __version__,
    }  # fmt: skip
    for name, value in facts.items():
        slots.say(name, value if isinstance(value, tuple) else str(value))
    limit = d.model.max_context_tokens
    beyond: Said = (f"past the {limit:,} tokens this model is made for", f"已超过该模型的设计上限 {limit:,} 个 token")
    for dim, stops in (("n", s.prompts), ("c", s.contexts)):
        slots.put(f"over.{dim}", dim, stops, lambda length: beyond if length > limit else "")


def _heads(shown: Shown) -> Said:
    if isinstance(shown.mixer, Latent):
        return (f"one latent of {shown.d_key} for all of them (MLA)", f"共用一个 {shown.d_key} 维潜向量（MLA）")
    kept = shown.n_kv_heads
    name = "MHA" if kept == shown.mixer.n_heads else "MQA" if kept == 1 else "GQA"
    return (f"{kept} key and value heads ({name})", f"{kept} 个 KV 头（{name}）")


def equal_prompt(deployment: Deployment) -> int | None:
    """The shortest prompt whose scores and values take as many FLOP as all the rest of its pass; none up to 16 M.  [token]

    Attention grows with the square of the prompt, the matrices with the prompt: once ahead, it stays so.

    Examples
    --------
    Llama-2-7B: 2 · 4096 · T² · 32 of attention against 2 · 6.48e9 · T of the layers' matrices are equal at 49 thousand.

    >>> from roofline.specs.catalog import hardware, model
    >>> equal_prompt(Deployment(model=model("llama-2-7b"), hardware=hardware("h100")))
    49408
    """
    low, high = 1, 2
    while not _attention_leads(deployment, high):
        low, high = high, high * 2
        if high > FARTHEST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _attention_leads(deployment, middle) else (middle, high)
    return high


def _attention_leads(d: Deployment, prompt_tokens: int) -> bool:
    t = prefill(d, prompt_tokens=prompt_tokens)
    attention = float(sum(row["executed_flops"] for row in t.by_op() if row["kind"] == "attention"))
    return attention >= 0.5 * float(t.executed_flops)
