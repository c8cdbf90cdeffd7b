"""Every figure of the five steps, as the library answers it, into the slots of the page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.caches import kv_bytes, max_context_tokens
from roofline.answers.levers import decode_limit
from roofline.answers.memory import memory
from roofline.answers.phases import decode, prefill
from roofline.specs.deployment import Deployment
from roofline.timing.clock import Timing
from roofline.units import format_bytes, format_si
from roofline.views.walkthrough.roof import Roof
from roofline.views.walkthrough.settings import Settings
from roofline.views.walkthrough.shown import Shown, parts_of
from roofline.views.walkthrough.slots import Said, Slots
from roofline.views.words import percent, seconds, three

__all__ = ["ANSWER_TOKENS", "fill", "held", "later_bytes", "plain", "whole"]

ANSWER_TOKENS = 256
ENDLESS = 2**24  # tokens or sequences: every window is full, every expert read, and a read of the weights costs nothing

Floats = NDArray[np.float64]

BOUND: Mapping[str, Said] = {
    "compute": ("compute", "算力"),
    "memory": ("memory", "显存带宽"),
}
FITS: Mapping[bool, Said] = {True: ("fits", "放得下"), False: ("does not fit", "放不下")}


def whole(value: Any) -> str:
    """A count to the last digit."""
    return f"{value:,.0f}"


def plain(value: Any) -> str:
    """A side of a matrix, which has no commas of its own."""
    return f"{value:.0f}"


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
    return "–" if value == 0 else f"{value:#.3g}" if value < 100 else three(value)


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
    for dim, stops in (("n", s.prompts), ("b", s.batches), ("c", s.contexts)):
        slots.put(dim, dim, stops, whole)
    slots.put("n.tokens", "n", s.prompts, partial(several, "token", "个 token"))
    slots.put("c.tokens", "c", s.contexts, partial(several, "token", "个 token"))
    slots.put("b.sequences", "b", s.batches, partial(several, "sequence", "条序列"))
    slots.put("b.high", "b", s.batches, partial(several, "row", "行"))
    read = prefill(s.deployment, prompt_tokens=prompts)
    step = decode(s.deployment, context_tokens=prompts[:, None], batch=batches)
    _project(slots, shown, read, roof)
    _attend(slots, s, shown, read, roof)
    _keep(slots, s, shown, roof)
    _decode_one(slots, s, shown, step, roof)
    _grow(slots, s, roof)
    late = shown.rows(decode(s.deployment, context_tokens=np.array(s.contexts, float)).by_op())["attention"]
    slots.put("s5.keys", "c", _pairs(late, shown), plain)


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
        slots.put(f"{step}.{name}.intensity", dims, row["executed_flops"] / row["weight_bytes"], per_byte)
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
    slots.put("s1.first.all", "n", first["intensity"], per_byte)
    peak = np.asarray(first["executed_flops"] / first["compute_s"])[-1]
    slots.say("s1.ridge", three(peak / roof.hbm_bytes_per_s))
    slots.say("s1.dtype", str(first["run_dtype"]))
    slots.put("s1.kind", "n", read.coordinates["prompt_tokens"], _product)
    roof.place_at(
        slots, "s1", "n", intensity=first["intensity"], flops_per_s=first["executed_flops"] / first["seconds"]
    )


GEMV: Said = ("GEMV, vector × matrix", "GEMV（向量 × 矩阵）")


def _product(n_rows: Any) -> Said:
    return GEMV if n_rows == 1 else ("GEMM, matrix × matrix", "GEMM（矩阵 × 矩阵）")


def _attend(slots: Slots, s: Settings, shown: Shown, read: Timing, roof: Roof) -> None:
    """Step 2: the whole pass over the prompt, part by part."""
    parts = parts_of(s.deployment.model, read)
    _parts(slots, "s2", "n", parts, read)
    _passed(slots, "s2", "n", read)
    slots.put("s2.pairs", "n", _pairs(shown.rows(read.by_op())["attention"], shown), whole)
    slots.put("s2.att", "n", parts["attention"]["executed_flops"] / np.asarray(read.executed_flops), percent)
    slots.put("s2.experts", "n", _touched(s, read), percent)
    roof.place(slots, "s2", "n", read)


def _pairs(row: Mapping[str, Any], shown: Shown) -> Floats:
    """Scores of one head for one sequence, in the layer shown."""
    return np.asarray(row["score_elements"] / (row["repeat"] * shown.mixer.n_heads))


def _touched(s: Settings, t: Timing) -> Floats:
    """Of the weights of all experts the share that a pass reads; none where there are none."""
    read, held = (
        sum((row["weight_bytes"] for row in rows if row["kind"] == "expert"), start=0.0)
        for rows in (t.by_op(), prefill(s.deployment, prompt_tokens=ENDLESS).by_op())
    )
    return np.asarray(read / np.maximum(held, 1.0))


def _parts(slots: Slots, step: str, dims: str, parts: Mapping[str, Mapping[str, Floats]], t: Timing) -> None:
    for part, of in parts.items():
        slots.put(f"{step}.{part}.flops", dims, of["executed_flops"], lambda x: work(x) if x else "–")
        slots.put(f"{step}.{part}.bytes", dims, of["streamed_bytes"], traffic)
        there = of["executed_flops"] / of["streamed_bytes"]
        slots.put(f"{step}.{part}.intensity", dims, there, per_byte)
        slots.put(f"{step}.{part}.s", dims, of["seconds"], seconds)
        slots.put(f"{step}.{part}.share", dims, of["seconds"] / np.asarray(t.seconds), percent)
        words = np.where(of["compute_s"] >= of["memory_s"], "compute", "memory")
        slots.put(f"{step}.{part}.bound", dims, words, bound)


def _keep(slots: Slots, s: Settings, shown: Shown, roof: Roof) -> None:
    """Step 3: what is kept of the prompt, and what the next token costs with it and without."""
    d, prompts = s.deployment, np.array(s.prompts, float)
    slots.put("s3.kept", "n", memory(d, context_tokens=prompts).kv_bytes, held)
    layer = [_layer_bytes(s, shown, n) for n in s.prompts]
    slots.put("s3.layer", "n", layer, whole)
    slots.put("s3.layer_held", "n", layer, held)
    with_it, without = decode(d, context_tokens=prompts), prefill(d, prompt_tokens=prompts + 1.0)
    flops, times, intensity = (
        np.stack([getattr(t, x) for t in (with_it, without)], axis=-1)
        for x in ("executed_flops", "seconds", "intensity")
    )
    slots.put("s3.ratio", "n", flops[:, 1] / flops[:, 0], three)
    for i, name in enumerate(("with", "without")):
        slots.put(f"s3.{name}.flops", "n", flops[:, i], work)
        slots.put(f"s3.{name}.s", "n", times[:, i], seconds)
        slots.put(f"s3.{name}.width", "n", 100.0 * flops[:, i] / flops.max(axis=1), "{:.2f}".format)
    slots.put(
        "s3.r.rows", "nr", np.stack([np.ones_like(prompts), prompts + 1.0], axis=-1), partial(several, "row", "行")
    )
    slots.put("s3.r.flops", "nr", flops, work)
    slots.put("s3.r.s", "nr", times, seconds)
    roof.place_at(slots, "s3", "nr", intensity=intensity, flops_per_s=flops / times)
    later = prompts[:, None] + np.arange(ANSWER_TOKENS - 1)
    cached = np.asarray(decode(d, context_tokens=later).executed_flops).sum(axis=1)
    again = np.asarray(prefill(d, prompt_tokens=later + 1.0).executed_flops).sum(axis=1)
    slots.put("s3.answer.with", "n", cached, work)
    slots.put("s3.answer.without", "n", again, work)
    slots.put("s3.answer.ratio", "n", again / cached, three)


def _layer_bytes(s: Settings, shown: Shown, n_tokens: int) -> float:
    """Cache that a prompt leaves in the layer shown: what its pass writes, of a window what stays  [B]."""
    rows = shown.rows(prefill(s.deployment, prompt_tokens=float(shown.sees(np.asarray(float(n_tokens))))).by_op())
    return float(sum(row["kv_write_bytes"] for row in rows.values()) / rows["attention"]["repeat"])


def _decode_one(slots: Slots, s: Settings, shown: Shown, step: Timing, roof: Roof) -> None:
    """Step 4: one pass that gives every sequence a token."""
    batches = np.array(s.batches, float)
    rows = shown.rows(step.by_op())
    _products(slots, "s4", "nb", shown.projections, rows)
    core = rows["attention"]
    slots.put("s4.att.flops", "nb", core["executed_flops"] / core["repeat"], whole)
    slots.put("s4.att.bytes", "nb", core["kv_read_bytes"] / core["repeat"], whole)
    slots.put("s4.att.intensity", "nb", _per_read_byte(core), per_byte)
    slots.put("s4.keys", "n", _pairs(rows["attention"], shown)[:, 0], plain)
    far = shown.rows(decode(s.deployment, context_tokens=ENDLESS).by_op())["attention"]
    slots.say("s4.att.limit", per_byte(float(_per_read_byte(far))))
    _parts(slots, "s4", "nb", parts_of(s.deployment.model, step), step)
    _passed(slots, "s4", "nb", step)
    read = np.asarray(step.hbm_bytes)
    moved = {
        "weights": step.total("weight_bytes"),
        "kv": step.total("kv_read_bytes"),
        "state": step.total("state_bytes"),
    }
    for name, n_bytes in moved.items():
        slots.put(f"s4.{name}", "nb", n_bytes, traffic)
        slots.put(f"s4.{name}_width", "nb", 100.0 * np.asarray(n_bytes) / read, "{:.1f}".format)
    slots.put("s4.rest", "nb", read - sum(map(np.asarray, moved.values())), traffic)
    slots.put("s4.experts", "nb", _touched(s, step), percent)
    slots.put("s4.user", "nb", 1.0 / np.asarray(step.seconds), three)
    slots.put("s4.all", "nb", batches / np.asarray(step.seconds), three)
    slots.put("s4.kind", "b", batches, _thin)
    limits = np.array([decode_limit(s.deployment, context_tokens=float(n)) for n in s.prompts])
    slots.put("s4.limit", "n", limits, per_byte)
    full = decode(s.deployment, context_tokens=np.array(s.prompts, float), batch=ENDLESS)
    lifted = np.asarray(full.bound) == "compute"
    told = lifted + 2 * (lifted == (limits >= step.ridge))
    slots.put("s4.lifts", "n", told, lambda code: LIFTS[code % 2 == 1, code >= 2])
    roof.place(slots, "s4", "nb", step)


def _per_read_byte(row: Mapping[str, Any]) -> Floats:
    """FLOP per byte of cache that attention reads; none where it reads none (a chunk that begins)  [FLOP/B]."""
    read = np.asarray(row["kv_read_bytes"], dtype=float)
    return np.asarray(np.where(read > 0, row["executed_flops"] / np.maximum(read, 1.0), 0.0))


LIFTS: Mapping[tuple[bool, bool], Said] = {  # bound by compute; on the side of the ridge that says so
    (False, True): (
        "below the ridge: no batch makes this decode compute-bound",
        "低于拐点：再大的批也不会让这里的解码受限于算力",
    ),
    (True, True): (
        "above the ridge: a large enough batch makes decode compute-bound",
        "高于拐点：批足够大时，解码会受限于算力",
    ),
    (False, False): ("and no batch makes this decode compute-bound", "再大的批也不会让这里的解码受限于算力"),
    (True, False): ("and a large enough batch makes decode compute-bound", "批足够大时，解码会受限于算力"),
}
"""Units of several dtypes have ridges of their own: a pass may be bound otherwise than by that of most of its work."""


def _thin(batch: Any) -> Said:
    return GEMV if batch == 1 else (f"GEMM only {batch:.0f} rows high", f"只有 {batch:.0f} 行的 GEMM")


def _grow(slots: Slots, s: Settings, roof: Roof) -> None:
    """Step 5: the cache along the context, for every choice of batch, heads and formats."""
    size = {dim: len(stops) for dim, stops in s.stops.items()}
    shape = tuple(size[dim] for dim in "bchkw")
    grids = {name: np.empty(shape) for name in ("s", "bytes", "kv", "intensity", "flops", "used", "fits", "mfu")}
    binds, cache, weights = np.empty(shape, dtype="<U8"), np.empty(shape[:4]), np.empty((size["h"], size["w"]))
    token, later, equal = np.empty(shape[2:4]), np.empty(shape[2:4]), np.empty((size["b"], *shape[2:]))
    batches, contexts = np.array(s.batches, float), np.array(s.contexts, float)
    for (h, k, w), d in s.variants():
        t = decode(d, context_tokens=contexts, batch=batches[:, None])
        m = memory(d, context_tokens=contexts, batch=batches[:, None])
        found = {"s": t.seconds, "bytes": t.hbm_bytes, "kv": t.total("kv_read_bytes"), "intensity": t.intensity,
                 "flops": t.executed_flops, "used": m.used_bytes_per_chip, "fits": m.fits, "mfu": t.mfu}  # fmt: skip
        for name, value in found.items():
            grids[name][:, :, h, k, w] = value
        binds[:, :, h, k, w] = t.bound
        cache[:, :, h, k], weights[h, w] = m.kv_bytes, m.weight_bytes
        token[h, k], later[h, k] = m.kv_bytes_per_token, later_bytes(d)
        equal[:, h, k, w] = max_context_tokens(d.model, kv_bytes=m.weight_bytes, batch=batches, kv=d.numerics.kv.name)
    dims, capacity = "bchkw", s.deployment.hardware.memory_bytes
    slots.put("s5.s", dims, grids["s"], seconds)
    slots.put("s5.share", dims, grids["kv"] / grids["bytes"], percent)
    slots.put("s5.intensity", dims, grids["intensity"], per_byte)
    slots.put("s5.mfu", dims, grids["mfu"], percent)
    slots.put("s5.bound", dims, binds, bound)
    slots.put("s5.cache", "bchk", cache, held)
    slots.put("s5.token", "hk", token, whole)
    slots.put("s5.token_held", "hk", token, held)
    if np.any(later < token):
        slots.put("s5.later", "hk", later, whole)
    slots.put("s5.state", "b", memory(s.deployment, context_tokens=1, batch=batches).state_bytes, held)
    slots.put("s5.weights", "hw", weights, held)
    slots.put("s5.used", dims, grids["used"], held)
    slots.put("s5.fits", dims, grids["fits"] > 0, lambda fits: FITS[bool(fits)])
    filled = np.minimum(100.0 * weights / capacity, 100.0)
    slots.put("s5.weights_width", "hw", filled, "{:.1f}".format)
    wide = np.minimum(100.0 * cache[..., None] / capacity, 100.0 - filled[:, None, :])
    slots.put("s5.cache_width", dims, wide, "{:.1f}".format)
    slots.put("s5.equal", "bhkw", equal, lambda n: whole(n) if np.isfinite(n) else "–")
    slots.say("capacity", held(capacity))
    roof.place_at(slots, "s5", dims, intensity=grids["intensity"], flops_per_s=grids["flops"] / grids["s"])


def later_bytes(d: Deployment) -> float:
    """Cache of one more token at the end of an endless context, where every window is full  [B]."""
    ends = kv_bytes(d.model, context_tokens=np.array([ENDLESS, ENDLESS + 1.0]), kv=d.numerics.kv.name)
    return float(np.diff(np.asarray(ends))[0])
