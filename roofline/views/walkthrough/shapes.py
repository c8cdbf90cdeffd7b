"""Sides of the matrices the page draws, and for each line of them how many elements its width stands for."""

from __future__ import annotations

import numpy as np

from roofline.answers.memory import memory
from roofline.units import format_bytes
from roofline.views.walkthrough.figures import whole
from roofline.views.walkthrough.settings import Settings
from roofline.views.walkthrough.shown import Shown
from roofline.views.walkthrough.slots import Slots

__all__ = ["put_shapes"]

ROOM = 1.25  # a line of matrices leaves a fifth of its width to names and signs
TALLEST = 0.45  # of its width


def put_shapes(slots: Slots, s: Settings, shown: Shown) -> None:
    """Rows and columns in elements; a line is as wide as all of it, or as its tallest matrix makes it."""
    n, b, c = np.array(s.prompts, float), np.array(s.batches, float), np.array(s.contexts, float)
    for name, (rows, cols) in shown.dims.items():
        slots.say(f"dim.{name}.in", str(rows))
        slots.say(f"dim.{name}.out", str(cols))
    kept = shown.d_key * shown.n_kv_heads
    for name, value in (("kept_width", kept), ("d_query", shown.d_query), ("d_key", shown.d_key), ("one", 1)):
        slots.say(name, str(value))
    slots.say("n_kept", str(shown.n_kv_heads))
    slots.put("n.rows", "n", s.prompts)
    slots.put("next.rows", "n", n + 1.0, "{:.0f}".format)
    slots.put("c.rows", "c", s.contexts)
    heads = np.array([_rows(x.n_heads, shown) for x in s.caches], float)
    slots.put("s5.kept_rows", "h", heads, "{:.0f}".format)
    wide, d_in = sum(shown.dims[name][1] for name in shown.shared), shown.dims[shown.projections[0]][0]
    ffn, tall = (sum(shown.dims[shown.ffn]), shown.dims[shown.ffn][0]) if shown.ffn else (0, 0)
    for name, dims, across, down in (
        ("s1", "n", n * 0.0 + d_in + 2 * wide, np.maximum(n, d_in)),
        ("s2", "n", np.maximum(2.0 * shown.d_query + 2.0 * n, ffn), np.maximum(n, tall)),
        ("s3", "n", n * 0.0 + 2.0 * kept, n),
        ("s4", "n", np.maximum(d_in + wide, 2.0 * n + shown.d_key), n * 0.0 + d_in),
        (
            "s5",
            "ch",
            c[:, None] + shown.dims[shown.projections[0]][1],
            np.maximum(d_in, 2.0 * heads + c[:, None] * 0.0),
        ),
    ):
        slots.put(f"{name}.span", dims, np.maximum(across * ROOM, down / TALLEST), "{:.0f}".format)
    slots.put("s1.more", "n", n - 4.0, lambda x: (f"and {x:,.0f} more", f"以及另外 {x:,.0f} 个") if x > 0 else "")
    passes = c[None, :] - n[:, None] + 1.0
    slots.put("s5.passes", "nc", passes, lambda x: whole(x) if x >= 1 else "–")
    held = memory(s.deployment, context_tokens=n[:, None] + 1.0, batch=b).kv_bytes
    slots.put("s4.held", "nb", held, format_bytes)


def _rows(n_heads: int, shown: Shown) -> int:
    """Rows of keys that so many heads keep; a latent's are its own width."""
    return shown.d_key if n_heads == 0 else n_heads * shown.d_query
