"""Every figure of the five steps, as the library answers it, into the slots of the page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.caches import kv_bytes
from roofline.answers.levers import decode_limit
from roofline.answers.memory import memory
from roofline.answers.phases import decode, prefill
from roofline.timing.clock import Timing
from roofline.units import format_bytes, format_si
from roofline.views.walkthrough.roof import Roof
from roofline.views.walkthrough.settings import Settings
from roofline.views.walkthrough.shown import PARTS, Shown, parts_of
from roofline.views.walkthrough.slots import Said, Slots
from roofline.views.words import percent, seconds, three

__all__ = ["ANSWER_TOKENS", "fill", "whole"]

ANSWER_TOKENS = 256

Floats = NDArray[np.float64]

BOUND: Mapping[str, Said] = {
    "compute": ("compute", "算力"),
    "memory": ("memory", "显存带宽"),
}
FITS: Mapping[bool, Said] = {True: ("fits", "放得下"), False: ("does not fit", "放不下")}


def whole(value: Any) -> str:
    """A count to the last digit."""
    return f"{value:,.0f}"


def work(value: Any) -> str:
    """FLOPs for people."""
    return format_si(float(value), "FLOP")


def traffic(value: Any) -> str:
    """Bytes that move."""
    return format_si(float(value), "B")


def held(value: Any) -> str:
    """Bytes that are kept."""
    return format_bytes(float(value))


def per_byte(value: Any) -> str:
    """FLOP per byte, to three digits: 4.00, 295."""
    return f"{value:#.3g}" if 0 < value < 100 else three(value)


def several(thing: str, chinese: str, value: Any) -> Said:
    """So many of a thing.

    >>> several("row", "行", 1), several("row", "行", 2048)
    (('1 row', '1 行'), ('2,048 rows', '2,048 行'))
    """
    return f"{value:,.0f} {thing}{'' if value == 1 else 's'}", f"{value:,.0f} {chinese}"


def bound(value: Any) -> Said:
    """What binds."""
    return BOUND[str(value)]


def fill(slots: Slots, s: Settings, shown: Shown, roof: Roof) -> None:
    """All figures of all steps."""
    prompts, batches = np.array(s.prompts, float), np.array(s.batches, float)
    slots.put("n", "n", s.prompts, whole)
    slots.put("b", "b", s.batches, whole)
    slots.put("c", "c", s.contexts, whole)
    slots.put("n.tokens", "n", s.prompts, partial(several, "token", "个 token"))
    slots.put("c.tokens", "c", s.contexts, partial(several, "token", "个 token"))
    slots.put("b.sequences", "b", s.batches, partial(several, "sequence", "条序列"))
    slots.put("b.rows", "b", s.batches, partial(several, "row", "行"))
    read = prefill(s.deployment, prompt_tokens=prompts)
    step = decode(s.deployment, context_tokens=prompts[:, None], batch=batches)
    _project(slots, shown, read, roof)
    _attend(slots, s, read, roof)
    _keep(slots, s, shown, roof)
    _decode_one(slots, s, shown, step, roof)
    _grow(slots, s, roof)


def _passed(slots: Slots, name: str, dims: str, t: Timing) -> None:
    """A pass in its totals."""
    slots.put(f"{name}.flops", dims, t.executed_flops, work)
    slots.put(f"{name}.bytes", dims, t.hbm_bytes, traffic)
    slots.put(f"{name}.intensity", dims, t.intensity, per_byte)
    slots.put(f"{name}.s", dims, t.seconds, seconds)
    slots.put(f"{name}.mfu", dims, t.mfu, percent)
    slots.put(f"{name}.bound", dims, t.bound, bound)


def _products(
    slots: Slots, step: str, dims: str, names: tuple[str, ...], rows: Mapping[str, Mapping[str, Any]]
) -> None:
    """Matrix products of one layer: exact counts, intensity, time of the layer."""
    for name in names:
        row, one = rows[name], 1.0 / rows[name]["repeat"]
        slots.put(f"{step}.{name}.flops", dims, row["executed_flops"] * one, whole)
        slots.put(f"{step}.{name}.bytes", dims, row["weight_bytes"] * one, whole)
        slots.put(
            f"{step}.{name}.intensity", dims, row["executed_flops"] / np.maximum(row["weight_bytes"], 1.0), per_byte
        )
        slots.put(f"{step}.{name}.s", dims, row["seconds"] * one, seconds)
        slots.put(f"{step}.{name}.bound", dims, row["bound"], bound)


def _project(slots: Slots, shown: Shown, read: Timing, roof: Roof) -> None:
    """Step 1: the products that make queries, keys and values of the prompt."""
    rows = shown.rows(read.by_op())
    _products(slots, "s1", "n", shown.projections, rows)
    first = rows[shown.projections[0]]
    slots.say("s1.held", held(first["weight_bytes"] / first["repeat"]))
    for name in ("flops", "bytes", "intensity", "bound"):
        slots.copy(f"s1.first.{name}", f"s1.{shown.projections[0]}.{name}")
    slots.put("s1.kind", "n", read.coordinates["prompt_tokens"], _product)
    roof.place_at(
        slots, "s1", "n", intensity=first["intensity"], flops_per_s=first["executed_flops"] / first["seconds"]
    )


GEMV: Said = ("GEMV, vector × matrix", "GEMV（向量 × 矩阵）")


def _product(n_rows: Any) -> Said:
    return GEMV if n_rows == 1 else ("GEMM, matrix × matrix", "GEMM（矩阵 × 矩阵）")


def _attend(slots: Slots, s: Settings, read: Timing, roof: Roof) -> None:
    """Step 2: the whole pass over the prompt, part by part."""
    prompts = np.array(s.prompts, float)
    parts = parts_of(s.deployment.model, read)
    _parts(slots, "s2", "n", parts, read)
    _passed(slots, "s2", "n", read)
    slots.put("s2.pairs", "n", prompts * (prompts + 1.0) / 2.0, whole)
    slots.put("s2.att", "n", parts["attention"]["flops"] / np.asarray(read.executed_flops), percent)
    roof.place(slots, "s2", "n", read)


def _parts(slots: Slots, step: str, dims: str, parts: Mapping[str, Mapping[str, Floats]], t: Timing) -> None:
    for part in PARTS:
        of = parts[part]
        slots.put(f"{step}.{part}.flops", dims, of["flops"], lambda x: work(x) if x else "–")
        slots.put(f"{step}.{part}.bytes", dims, of["bytes"], traffic)
        there = of["flops"] / np.maximum(of["bytes"], 1.0)
        slots.put(f"{step}.{part}.intensity", dims, there, lambda x: per_byte(x) if x else "–")
        slots.put(f"{step}.{part}.s", dims, of["seconds"], seconds)
        slots.put(f"{step}.{part}.share", dims, of["seconds"] / np.asarray(t.seconds), percent)
        words = np.where(of["compute_s"] >= of["memory_s"], "compute", "memory")
        slots.put(f"{step}.{part}.bound", dims, words, bound)


def _keep(slots: Slots, s: Settings, shown: Shown, roof: Roof) -> None:
    """Step 3: what is kept of the prompt, and what the next token costs with it and without."""
    d, prompts = s.deployment, np.array(s.prompts, float)
    kept = np.array([float(kv_bytes(d.model, context_tokens=n, kv=d.numerics.kv.name)) for n in s.prompts])
    layer = np.array([layer_bytes(s, shown, n) for n in s.prompts])
    per_token = memory(d, context_tokens=1).kv_bytes_per_token
    slots.put("s3.layer", "n", layer, whole)
    slots.put("s3.layer_held", "n", layer, held)
    slots.put("s3.kept", "n", kept, held)
    slots.say("s3.token", whole(per_token))
    slots.say("s3.token_held", held(per_token))
    slots.put("s3.next", "n", prompts + 1.0, whole)
    with_it, without = decode(d, context_tokens=prompts), prefill(d, prompt_tokens=prompts + 1.0)
    for name, t in (("with", with_it), ("without", without)):
        slots.put(f"s3.{name}.flops", "n", t.executed_flops, work)
        slots.put(f"s3.{name}.s", "n", t.seconds, seconds)
    slots.put("s3.ratio", "n", np.asarray(without.executed_flops) / with_it.executed_flops, three)
    later = prompts[:, None] + np.arange(ANSWER_TOKENS - 1)
    cached = np.asarray(decode(d, context_tokens=later).executed_flops).sum(axis=1)
    again = np.asarray(prefill(d, prompt_tokens=later + 1.0).executed_flops).sum(axis=1)
    slots.put("s3.answer.with", "n", cached, work)
    slots.put("s3.answer.without", "n", again, work)
    slots.put("s3.answer.ratio", "n", again / cached, three)
    most = np.maximum(np.asarray(without.executed_flops), with_it.executed_flops)
    slots.put("s3.with.width", "n", 100.0 * with_it.executed_flops / most, "{:.2f}".format)
    slots.put("s3.without.width", "n", 100.0 * without.executed_flops / most, "{:.2f}".format)
    both = [
        np.stack([getattr(t, x) for t in (with_it, without)], axis=-1)
        for x in ("executed_flops", "seconds", "intensity")
    ]
    roof.place_at(slots, "s3", "nr", intensity=both[2], flops_per_s=both[0] / both[1])
    rows = np.stack([np.ones_like(prompts), prompts + 1.0], axis=-1)
    slots.put("s3.r.rows", "nr", rows, partial(several, "row", "行"))
    slots.put("s3.r.flops", "nr", both[0], work)
    slots.put("s3.r.s", "nr", both[1], seconds)


def layer_bytes(s: Settings, shown: Shown, n_tokens: int) -> float:
    """Cache that a prompt writes in the layer shown  [B]."""
    rows = prefill(s.deployment, prompt_tokens=n_tokens).by_op()
    core = next(row for row in rows if row["name"].startswith(shown.prefix) and row["kind"] == "attention")
    return float(core["kv_write_bytes"] / core["repeat"])


def _decode_one(slots: Slots, s: Settings, shown: Shown, step: Timing, roof: Roof) -> None:
    """Step 4: one pass that gives every sequence a token."""
    batches = np.array(s.batches, float)
    rows = shown.rows(step.by_op())
    _products(slots, "s4", "nb", shown.projections, rows)
    core = rows["attention"]
    slots.put("s4.att.flops", "nb", core["executed_flops"] / core["repeat"], whole)
    slots.put("s4.att.bytes", "nb", core["kv_read_bytes"] / core["repeat"], whole)
    att = core["executed_flops"] / np.maximum(core["kv_read_bytes"], 1.0)
    slots.put("s4.att.intensity", "nb", att, per_byte)
    _parts(slots, "s4", "nb", parts_of(s.deployment.model, step), step)
    _passed(slots, "s4", "nb", step)
    slots.put("s4.weights", "nb", step.total("weight_bytes"), traffic)
    slots.put("s4.kv", "nb", step.total("kv_read_bytes"), traffic)
    read = np.asarray(step.hbm_bytes)
    slots.put("s4.weights_width", "nb", 100.0 * np.asarray(step.total("weight_bytes")) / read, "{:.1f}".format)
    slots.put("s4.kv_width", "nb", 100.0 * np.asarray(step.total("kv_read_bytes")) / read, "{:.1f}".format)
    slots.put("s4.user", "nb", 1.0 / np.asarray(step.seconds), three)
    slots.put("s4.all", "nb", batches / np.asarray(step.seconds), three)
    slots.put("s4.kind", "b", batches, _thin)
    limits = np.array([decode_limit(s.deployment, context_tokens=float(n)) for n in s.prompts])
    slots.put("s4.limit", "n", limits, per_byte)
    slots.put("s4.lifts", "n", limits < step.ridge, lambda below: LIFTS[bool(below)])
    roof.place(slots, "s4", "nb", step)


LIFTS: Mapping[bool, Said] = {
    True: (
        "below the ridge, so no batch makes this decode compute-bound",
        "低于拐点，所以再大的批次也不会让这里的解码变成算力受限",
    ),
    False: (
        "above the ridge, so a large enough batch makes decode compute-bound",
        "高于拐点，所以批次足够大时解码会变成算力受限",
    ),
}


def _thin(batch: Any) -> Said:
    return GEMV if batch == 1 else (f"GEMM only {batch:.0f} rows high", f"只有 {batch:.0f} 行的 GEMM")


def _grow(slots: Slots, s: Settings, roof: Roof) -> None:
    """Step 5: the cache along the context, for every choice of batch, heads and formats."""
    size = {dim: len(stops) for dim, stops in s.stops.items()}
    shape = tuple(size[dim] for dim in "bchkw")
    grids = {name: np.empty(shape) for name in ("s", "bytes", "kv", "intensity", "flops", "used", "fits", "mfu")}
    per_token, weights = np.empty(shape[2:4]), np.empty(size["w"])
    batches, contexts = np.array(s.batches, float)[:, None], np.array(s.contexts, float)
    cache, capacity, binds = np.empty(shape[:4]), 0.0, np.empty(shape, dtype="<U8")
    for (h, k, w), d in s.variants():
        t, m = decode(d, context_tokens=contexts, batch=batches), memory(d, context_tokens=contexts, batch=batches)
        found = {"s": t.seconds, "bytes": t.hbm_bytes, "kv": t.total("kv_read_bytes"), "intensity": t.intensity,
                 "flops": t.executed_flops, "used": m.used_bytes_per_chip, "fits": m.fits, "mfu": t.mfu}  # fmt: skip
        for name, value in found.items():
            grids[name][:, :, h, k, w] = value
        binds[:, :, h, k, w] = t.bound
        per_token[h, k], cache[:, :, h, k] = m.kv_bytes_per_token, m.kv_bytes
        weights[w] = m.weight_bytes if s.caches[h].own else weights[w]
        capacity = m.capacity_bytes
    dims = "bchkw"
    slots.put("s5.s", dims, grids["s"], seconds)
    slots.put("s5.share", dims, grids["kv"] / grids["bytes"], percent)
    slots.put("s5.intensity", dims, grids["intensity"], per_byte)
    slots.put("s5.mfu", dims, grids["mfu"], percent)
    slots.put("s5.bound", dims, binds, bound)
    slots.put("s5.cache", "bchk", cache, held)
    slots.put("s5.token", "hk", per_token, whole)
    slots.put("s5.token_held", "hk", per_token, held)
    slots.put("s5.weights", "w", weights, held)
    slots.put("s5.used", dims, grids["used"], held)
    slots.put("s5.fits", dims, grids["fits"] > 0, lambda fits: FITS[bool(fits)])
    slots.put("s5.weights_width", "w", np.minimum(100.0 * weights / capacity, 100.0), "{:.1f}".format)
    room = 100.0 - np.minimum(100.0 * weights / capacity, 100.0)
    wide = np.minimum(100.0 * cache[..., None] / capacity, room)
    slots.put("s5.cache_width", dims, wide, "{:.1f}".format)
    slots.put("s5.equal", "bhkw", _equal(per_token, weights, batches[:, 0]), _tokens)
    slots.say("capacity", held(capacity))
    roof.place_at(slots, "s5", dims, intensity=grids["intensity"], flops_per_s=grids["flops"] / grids["s"])


def _equal(per_token: Floats, weights: Floats, batches: Floats) -> Floats:
    """Tokens a sequence at which the cache, growing as at first, is as large as the weights  [token]."""
    each = per_token[None, :, :, None] * batches[:, None, None, None]
    return np.asarray(weights / np.maximum(each, 1e-300))


def _tokens(value: Any) -> str:
    return whole(value) if value < 1e15 else "–"
