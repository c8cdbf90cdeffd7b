"""Sides of the matrices the page draws, and for each line of them how many elements its width stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.answers.memory import memory
from roofline.specs.mixers import Latent
from roofline.units import format_bytes
from roofline.views.walkthrough.figures import plain, whole
from roofline.views.walkthrough.settings import Settings
from roofline.views.walkthrough.shown import Shown
from roofline.views.walkthrough.slots import Slots

__all__ = ["put_shapes"]

ROOM = 1.4  # a line of matrices leaves more than a quarter of its width to names and signs
TALLEST = 0.45  # of its width


def put_shapes(slots: Slots, s: Settings, shown: Shown) -> None:
    """Rows and columns in elements; a line is as wide as all of it, or as its tallest matrix makes it."""
    n, b, c = (np.array(stops, float) for stops in (s.prompts, s.batches, s.contexts))
    kept, grown = shown.kept(0 if isinstance(shown.mixer, Latent) else shown.n_kv_heads), _grown(s, shown)
    fixed = {"d_query": shown.d_query, "d_key": shown.d_key, "one": 1} | {f"kept.{x}": d for x, d in kept.items()}
    for name, (d_in, d_out) in shown.dims.items():
        fixed |= {f"dim.{name}.in": d_in, f"dim.{name}.out": d_out}
    for name, side in fixed.items():
        slots.say(name, plain(side))
    for name, sides in (("n.rows", n), ("b.rows", b), ("n.kept", shown.sees(n)), ("c.kept", shown.sees(c))):
        slots.put(name, name[0], sides, plain)
    for name, rows in grown.items():
        slots.put(f"s5.kept.{name}", "h", rows, plain)
    if isinstance(shown.mixer, Latent):
        slots.put("s5.kept_name", "h", [cache.n_heads for cache in s.caches], lambda heads: "K, V" if heads else "C")
    wide, width = sum(shown.dims[name][1] for name in shown.shared), shown.d_in
    ffn, tall = (sum(shown.dims[shown.ffn]), shown.dims[shown.ffn][0]) if shown.ffn else (0, 0)
    spans: dict[str, tuple[str, Any, Any]] = {
        "s1": ("n", width + 2.0 * wide, np.maximum(n, width)),
        "s2": ("n", np.maximum(2.0 * shown.d_query + 2.0 * n, ffn), np.maximum(n, tall)),
        "s3": ("n", sum(kept.values()), shown.sees(n)),
        "s4": ("n", np.maximum(width + wide, 2.0 * n + shown.d_key), width),
        "s5": ("ch", shown.sees(c)[:, None] + shown.dims[shown.shared[0]][1], np.maximum(width, sum(grown.values()))),
    }
    for name, (dims, across, down) in spans.items():
        slots.put(f"{name}.span", dims, np.maximum(across * ROOM, down / TALLEST), plain)
    slots.put("s1.more", "n", n - 4.0, lambda x: (f"and {x:,.0f} more", f"以及另外 {x:,.0f} 个") if x > 0 else "")
    passes = c[None, :] - n[:, None] + 1.0
    slots.put("s5.passes", "nc", passes, lambda x: whole(x) if x >= 1 else "–")
    both = memory(s.deployment, context_tokens=n[:, None] + 1.0, batch=b)
    slots.put("s4.held", "nb", both.kv_bytes, format_bytes)


def _grown(s: Settings, shown: Shown) -> dict[str, NDArray[np.float64]]:
    """Rows of what is kept, for every choice of heads; where layers differ, its own are those the layer has."""
    most = shown.mixer.n_heads
    heads = [shown.n_kv_heads if x.own and x.n_heads else min(x.n_heads, most) for x in s.caches]
    each = [shown.kept(n) for n in heads]
    return {name: np.array([rows[name] for rows in each], float) for name in each[0]}
