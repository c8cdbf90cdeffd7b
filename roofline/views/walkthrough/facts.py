"""What no setting moves: the model, the chip, and where their roofline bends."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.answers.crossings import half_attention_at
from roofline.answers.memory import memory
from roofline.answers.phases import prefill
from roofline.specs.ffns import Moe
from roofline.specs.mixers import Attention, Indexer, Latent
from roofline.specs.model import Model
from roofline.units import format_si
from roofline.views.walkthrough.figures import ANSWER_TOKENS, held, later_bytes, several, whole
from roofline.views.walkthrough.roof import Roof
from roofline.views.walkthrough.settings import Settings
from roofline.views.walkthrough.shown import Shown
from roofline.views.walkthrough.slots import Said, Slots
from roofline.views.words import seconds, three

__all__ = ["experts_of", "put_facts"]


def put_facts(slots: Slots, s: Settings, shown: Shown, roof: Roof) -> None:
    """Names, sizes and rates; the prompts at which the roof bends and at which attention does half of the work."""
    from roofline import __version__

    d, first = s.deployment, shown.projections[0]
    formats, at_rest = d.numerics, memory(d, context_tokens=1)
    equal, experts = half_attention_at(d), experts_of(d.model)
    facts: Mapping[str, Said | int] = {
        "model": d.model.id, "chip": d.hardware.id, "n_layers": d.model.n_layers, "d_model": d.model.d_model,
        "n_heads": shown.mixer.n_heads, "heads": _heads(shown), "alike": shown.repeat, "sight": _sight(shown),
        "serves": several("query head", "个查询头", shown.mixer.n_heads // shown.n_kv_heads), "kept": _kept(shown),
        "weights_format": formats.weights_name, "kv_format": formats.kv.name, "weights_held": held(at_rest.weight_bytes),
        "token": whole(at_rest.kv_bytes_per_token), "token_held": held(at_rest.kv_bytes_per_token),
        "later": whole(later_bytes(d)), "state": held(at_rest.state_bytes),
        "n_experts": experts.n_experts if experts else "", "n_active": experts.n_active_experts if experts else "",
        "ridge": three(roof.ridge), "dtype": prefill(d, prompt_tokens=1).dtype,
        "peak": format_si(roof.peak_flops_per_s, "FLOP/s"), "bandwidth": format_si(roof.hbm_bytes_per_s, "B/s"),
        "first": first, "d_in": shown.d_in, "d_out": shown.dims[first][1],
        "answer": ANSWER_TOKENS, "others": ANSWER_TOKENS - 1,
        "knee": several("token", "个 token", s.knee or 0), "longest": whole(s.prompts[-1]),
        "one_s": seconds(prefill(d, prompt_tokens=1).seconds),
        "knee_s": seconds(prefill(d, prompt_tokens=s.knee or 1).seconds),
        "equal": "" if equal is None else whole(float(f"{equal:.3g}")), "version": __version__,
    }  # fmt: skip
    for name, value in facts.items():
        slots.say(name, value if isinstance(value, tuple) else str(value))
    limit = d.model.max_context_tokens
    beyond: Said = (f"past the {limit:,} tokens this model is made for", f"已超过该模型的设计上限 {limit:,} 个 token")
    for dim, stops in (("n", s.prompts), ("c", s.contexts)):
        slots.put(f"over.{dim}", dim, stops, lambda length: beyond if length > limit else "")


def experts_of(model: Model) -> Moe | None:
    """The mixture of experts there is most of."""
    found = [(repeat, layer.ffn) for repeat, layer in model.layer_kinds() if isinstance(layer.ffn, Moe)]
    return max(found, key=lambda x: x[0])[1] if found else None


def _heads(shown: Shown) -> Said:
    if isinstance(shown.mixer, Latent):
        return (f"one latent of {shown.d_key} for all of them (MLA)", f"共用一个 {shown.d_key} 维潜向量（MLA）")
    kept = shown.n_kv_heads
    name = "MHA" if kept == shown.mixer.n_heads else "MQA" if kept == 1 else "GQA"
    return f"{kept} key and value head{'' if kept == 1 else 's'} ({name})", f"{kept} 个 KV 头（{name}）"


def _kept(shown: Shown) -> Said:
    if isinstance(shown.mixer, Latent):
        return (
            f"one latent of {shown.d_key} a token, from which every head's K and V come",
            f"每个 token 的一个 {shown.d_key} 维潜向量，各个头的 K 和 V 都由它得出",
        )
    return ("the K and V of every token", "每个 token 的 K 和 V")


def _sight(shown: Shown) -> Said:
    """How far a query of the layer shown sees, where it does not see everything before it."""
    match shown.mixer:
        case Attention(indexer=Indexer() as x) | Latent(indexer=Indexer() as x):
            return (f" (of which an indexer picks the best {x.top_k:,})", f"（由索引器挑出最相关的 {x.top_k:,} 个）")
        case Attention(window=int() as window, chunked=True):
            return (f" (within its chunk of {window:,})", f"（限于自己所在的那段 {window:,} 个）")
        case Attention(window=int() as window):
            return (f" (at most {window:,}, its window)", f"（窗口内至多 {window:,} 个）")
        case _:
            return ""
