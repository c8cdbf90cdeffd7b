"""Pictures: results in, Axes out. Nothing global is touched; each Axes carries its data and a text that says it.

    plot.roofline(...)        where prefill and decode stand under a chip's roof, and how they move; single ops, other roads
    plot.latency(...)         TTFT against the prompt, TPOT against the batch; each alone: ttft_vs_prompt, tpot_vs_batch
    plot.latency_heatmap(...) both over tokens and batch, cell by cell
    plot.memory(...)          what the fullest chip of each deployment holds, against what it has
    plot.kv_growth(...)       what sequences keep of their context, against chips' memory and a model's weights
    plot.time_breakdown(...)  where the time of each phase goes, op by op
    plot.without_flash(...)   bytes and intensity of a prefill along the prompt, with FlashAttention and without
    plot.predicted_against_measured(...)   what was predicted of published measurements, held out
    plot.residuals(...)       the same as ratios, by engine, machine or phase
    plot.compared(...)        one's own measurements under the roof, and what was predicted of them
    plot.load_curve(...)      TTFT and TPOT of a service along the rate of requests: saturation, knee, promise
    plot.pareto(...)          output of a chip against the speed of a user, and the front of what keeps the promise
    plot.save(axes, path)     PNG, SVG or PDF, the same bytes each time

`ax.roofline_data` is a DataFrame of what was drawn, `ax.roofline_alt` a paragraph of alt text. All take `lang="zh"`,
`theme="dark"` and a `size`.
"""

from __future__ import annotations

from roofline.views.plot.accuracy_figure import predicted_against_measured, residuals
from roofline.views.plot.compared_figure import compared
from roofline.views.plot.eager_figure import without_flash
from roofline.views.plot.files import save
from roofline.views.plot.growth_figure import kv_growth
from roofline.views.plot.heat_figure import latency_heatmap
from roofline.views.plot.latency_figure import latency, tpot_vs_batch, ttft_vs_prompt
from roofline.views.plot.load_figure import load_curve
from roofline.views.plot.memory_figure import memory
from roofline.views.plot.ops_figure import time_breakdown
from roofline.views.plot.pareto_figure import pareto
from roofline.views.plot.roof_figure import roofline

__all__ = [
    "compared", "kv_growth", "latency", "latency_heatmap", "load_curve", "memory", "pareto", "predicted_against_measured",
    "residuals", "roofline", "save", "time_breakdown", "tpot_vs_batch", "ttft_vs_prompt", "without_flash",
]  # fmt: skip
