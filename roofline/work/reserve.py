"""What an engine reserves on one chip: live activations, and the share of the memory that is left for the cache."""

from __future__ import annotations

import numpy as np

from roofline.errors import Unsupported
from roofline.num import Num, same
from roofline.specs.engine import Engine
from roofline.specs.ffns import Dense, Ffn, Moe
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention, Latent, LinearMixer, SingleMixer
from roofline.specs.model import Model
from roofline.specs.precision import Numerics

__all__ = ["activation_bytes", "kv_budget_bytes"]


def activation_bytes(
    model: Model,
    *,
    batch_tokens: Num,
    numerics: Numerics,
    tp: int = 1,
    n_logits: Num = 0.0,
    logit_bytes: float = 14.5,
    element_bytes: float | None = None,
    expert_tokens: float = np.inf,
) -> Num:
    """Peak of what is live in a pass over `batch_tokens` tokens, m: at its widest layer, or where it samples.  [B]

        max(m · max_layers(live) · a, m · D · a + n · V · logit_bytes) + experts · a

        live       N·Hv + 2·s·D + max(mixing, feeding)     what mixing gave; s residuals as they came and leave
        mixing     attention   q, k, v as made, q and k again rotated, the output: 3·N·H + 3·K·H where Hv = H
                   latent      Rq + R + r + N·(p + r) + N·(p + v) + N·(p + r) + N·v: expanded, as for prompts
                   recurrent   what its products give, and the output
        feeding    dense       3·F gated, 2·F plain
                   experts     D + E, and the shared block's 3·F
        experts    min(m, expert_tokens) · k · (max(F, Dx) + max(2·F, Dx)): two workspaces that are kept

    A chip of tp holds F/tp, N/tp and max(K/tp, 1); D, E, latents and the logits, which are gathered, are whole.

    Parameters
    ----------
    model : Model
        The whole one: its vocabulary is not divided.
    batch_tokens : Num
        m, tokens of the largest pass [token].
    n_logits : Num
        n, sequences that sample at once; 0 on a chip that does not [1].
    logit_bytes : float
        Of one entry of the vocabulary while it samples, copies together [B]: an engine's.
    element_bytes : float, optional
        a, of one activation [B]; 4 in fp32, else 2, where not said.
    expert_tokens : float
        Most tokens an expert kernel takes at once [token].

    Notes
    -----
    Assumes that no vision or audio tower runs, and that libraries and the allocator add nothing. Held against logs: within
    0.02 GiB of vLLM 0.6 (vllm-project/vllm#10517: (3·D + 3·F) · 2 B a token of Llama-3.1-8B); within 0.1 % of its growth
    from 100,000 to 221,000 tokens (vllm-project/vllm#25350: Qwen3-30B-A3B, expert_tokens 32,768); 1 to 4 % below vLLM 0.19
    on 13 text models (llm-d-planner's accuracy report), whose libraries hold about 0.05 GiB. Experts in mxfp4 (gpt-oss) run
    in other kernels, and it is 11 % above. Latent and recurrent mixing has not been the widest in any log: a prior.

    References
    ----------
    The workspaces: vLLM 0.33.0, fused_moe/experts/triton_moe.py.

    Examples
    --------
    >>> from roofline.specs.catalog import model
    >>> from roofline.specs.precision import Precision
    >>> llama = model("llama-3.1-8b")
    >>> activation_bytes(llama, batch_tokens=20000.0, numerics=Precision().of(llama)) / 20000    # 2·3·(4096 + 14336)
    110592.0
    """
    a = numerics.activation_bytes if element_bytes is None else element_bytes
    kinds = [layer for _, layer in model.layer_kinds()]
    d_model = model.d_model * model.residual_streams
    live = max((_live(layer, model.d_model, d_model, tp) for layer in kinds), default=2.0 * d_model)
    kept = max((_workspace(layer.ffn, model.d_model, tp) for layer in kinds), default=0.0)
    sampling = n_logits * (model.vocab_size * logit_bytes) + batch_tokens * (model.d_model * a)
    passing = np.maximum(batch_tokens * (live * a), sampling)
    return same(passing + np.minimum(batch_tokens, expert_tokens) * (kept * a), batch_tokens, n_logits)


def _live(layer: Layer, d_model: int, d_residual: int, tp: int) -> float:
    """Elements a token holds at the widest point of a layer."""
    mixing = [_mixing(mixer, d_model, tp) for mixer in layer.mixers]
    output = sum(wide for wide, _ in mixing)
    within = sum(inside for _, inside in mixing)
    residual = 2.0 * d_residual * layer.altup
    return output + residual + max(within, _feeding(layer.ffn, d_model, tp))


def _mixing(mixer: SingleMixer, d_model: int, tp: int) -> tuple[float, float]:
    """(the output, everything live while it is made), elements a token."""
    match mixer:
        case Attention() as x:
            queries, values, n_keys = x.n_heads * x.d_head / tp, x.n_heads * x.d_v / tp, max(x.n_kv_heads / tp, 1.0)
            gate = 0.0 if x.gated is False else values
            made = queries + gate + n_keys * (x.d_head + x.d_v)
            return values, made + queries + n_keys * x.d_head + values
        case Latent() as x:
            wide, output = x.n_heads * (x.d_nope + x.d_rope) / tp, x.n_heads * x.d_value / tp
            made = (x.d_q_latent or 0) + x.d_latent + x.d_rope + wide + x.n_heads * (x.d_nope + x.d_value) / tp
            return output, made + wide + output
        case _:
            *products, out = mixer.matrices(d_model)
            output = out.n * out.d_in / tp
            return output, sum(m.n * m.d_out for m in products) / tp + output


def _feeding(ffn: Ffn | None, d_model: int, tp: int) -> float:
    """Elements a token holds inside a feed-forward block, an expert kernel's workspaces apart."""
    match ffn:
        case None:
            return 0.0
        case LinearMixer():
            return float(d_model)
        case Dense() as x:
            return (3.0 if x.gated else 2.0) * x.d_ff / tp
        case Moe() as x:
            return d_model + x.n_experts + (3.0 if x.gated else 2.0) * (x.d_shared or 0) / tp
        case _:
            raise Unsupported(f"an FFN of kind {ffn.kind} is not counted yet")


def _workspace(ffn: Ffn | None, d_model: int, tp: int) -> float:
    """Elements a token holds in the workspaces of a fused expert kernel."""
    if not isinstance(ffn, Moe):
        return 0.0
    wide, d_in = ffn.d_ff / tp, float(ffn.d_latent or d_model)
    return ffn.n_active_experts * (max(wide, d_in) + max((2.0 if ffn.gated else 1.0) * wide, d_in))


def kv_budget_bytes(
    engine: Engine,
    *,
    total_bytes: float,
    weight_bytes: Num,
    activation_bytes: Num = 0.0,
    free_bytes: Num | None = None,
    fraction: float | None = None,
    context_bytes: float | None = None,
    graph_bytes: float | None = None,
    n_chips: int = 1,
) -> Num:
    """What an engine leaves for the cache on a chip; below 0 where not even the rest fits.  [B]

        total     f·T − (W + A + C + G)          vLLM
        free      f·(S − W − A − C − G)          TensorRT-LLM
        static    f·(S − C) − W                  SGLang: activations and graphs live in (1 − f)·(S − C)
        wired     f·T − (W + A + C + G)          MLX
        none      f·S − (W + A + C + G)          llama.cpp, f = 1

    Parameters
    ----------
    engine : Engine
        Gives what is left out here: f, C and G.
    total_bytes, free_bytes : float, Num
        T, memory as the engine sees it; S, what of it is free at the start, all of it where not said [B].
    weight_bytes, activation_bytes : Num
        W, A [B].
    context_bytes, graph_bytes : float, optional
        C, what the runtime takes on a chip; G, captured graphs [B].
    n_chips : int
        Chips that hold one replica [1].

    Notes
    -----
    Assumes that at least f·T is free (vLLM refuses to start otherwise).

    Examples
    --------
    vllm-project/vllm#10517: an RTX 3090 of 23.58 GiB, 0.90 of it, peak 17.06 and 0.35 besides: "kv_cache_size=3.81GiB".

    >>> from roofline.specs.catalog import engine
    >>> gib = 2**30
    >>> left = kv_budget_bytes(
    ...     engine("vllm"), total_bytes=23.58 * gib, fraction=0.9, weight_bytes=14.9888 * gib,
    ...     activation_bytes=(17.06 - 14.9888) * gib, context_bytes=0.35 * gib, graph_bytes=0.0,
    ... )
    >>> round(left / gib, 2)
    3.81
    """
    f = engine.fraction(total_bytes, n_chips=n_chips) if fraction is None else fraction
    runtime = engine.context_bytes(n_chips=n_chips) if context_bytes is None else context_bytes
    graphs = engine.memory.graph_bytes if graph_bytes is None else graph_bytes
    free = total_bytes if free_bytes is None else free_bytes
    used = weight_bytes + activation_bytes + (runtime + graphs)
    match engine.memory.fraction_of:
        case "total" | "wired":
            return f * total_bytes - used
        case "free":
            return f * (free - used)
        case "static":
            return f * (free - runtime) - weight_bytes
        case "none":
            return f * free - used
        case _:
            raise Unsupported(f"{engine.id}: a fraction of {engine.memory.fraction_of} is not counted yet")
