"""Pictures: results in, Axes out. Nothing global is touched; each Axes carries its data and a text that says it.

    plot.roofline(...)        where prefill and decode stand under a chip's roof, and how they move
    plot.latency(...)         TTFT against the prompt, TPOT against the batch
    plot.kv_growth(...)       what sequences keep of their context, model by model, against chips' memory
    plot.without_flash(...)   bytes and intensity of a prefill along the prompt, with FlashAttention and without
    plot.predicted_against_measured(...)   what was predicted of published measurements, held out
    plot.residuals(...)       the same as ratios, by engine, machine or phase
    plot.compared(...)        one's own measurements under the roof, and what was predicted of them
    plot.load_curve(...)      TTFT and TPOT of a service along the rate of requests: saturation, knee, promise
    plot.pareto(...)          output of a chip against the speed of a user, and the front of what keeps the promise
    plot.save(axes, path)     PNG, SVG or PDF, the same bytes each time

`ax.roofline_data` is a DataFrame of what was drawn, `ax.roofline_alt` a paragraph of alt text.
"""

from __future__ import annotations

from roofline.views.plot.accuracy_figure import predicted_against_measured, residuals
from roofline.views.plot.compared_figure import compared
from roofline.views.plot.eager_figure import without_flash
from roofline.views.plot.figures import kv_growth, latency, roofline, tpot_vs_batch, ttft_vs_prompt
from roofline.views.plot.files import save
from roofline.views.plot.load_figure import load_curve
from roofline.views.plot.pareto_figure import pareto

__all__ = [
    "compared", "kv_growth", "latency", "load_curve", "pareto", "predicted_against_measured", "residuals", "roofline",
    "save", "tpot_vs_batch", "ttft_vs_prompt", "without_flash",
]  # fmt: skip
