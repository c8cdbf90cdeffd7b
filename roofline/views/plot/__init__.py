"""Pictures: results in, Axes out. Nothing global is touched; each Axes carries its data and a text that says it.

    plot.roofline(...)        where prefill and decode stand under a chip's roof, and how they move
    plot.latency(...)         TTFT against the prompt, TPOT against the batch
    plot.kv_growth(...)       what sequences keep of their context, model by model, against chips' memory
    plot.without_flash(...)   bytes and intensity of a prefill along the prompt, with FlashAttention and without
    plot.predicted_against_measured(...)   what was predicted of published measurements, held out
    plot.residuals(...)       the same as ratios, by engine, machine or phase
    plot.compared(...)        one's own measurements under the roof, and what was predicted of them
    plot.save(axes, path)     PNG, SVG or PDF, the same bytes each time

`ax.roofline_data` is a DataFrame of what was drawn, `ax.roofline_alt` a paragraph of alt text.
"""

from __future__ import annotations

from roofline.views.plot.accuracy_figure import predicted_against_measured, residuals
from roofline.views.plot.compared_figure import compared
from roofline.views.plot.eager_figure import without_flash
from roofline.views.plot.figures import kv_growth, latency, roofline, tpot_vs_batch, ttft_vs_prompt
from roofline.views.plot.files import save

__all__ = [
    "compared", "kv_growth", "latency", "predicted_against_measured", "residuals", "roofline", "save", "tpot_vs_batch",
    "ttft_vs_prompt", "without_flash",
]  # fmt: skip
