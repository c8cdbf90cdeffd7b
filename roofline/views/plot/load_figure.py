"""The figure of a service under load: TTFT and TPOT along the rate of requests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from roofline.answers.serving import Serving
from roofline.errors import require
from roofline.specs.slo import SLO
from roofline.specs.workload import Workload
from roofline.views.plot.compose import Headline, Panel, axes_given, compose
from roofline.views.plot.load_axes import draw_load, letter_load
from roofline.views.plot.load_points import load_points
from roofline.views.plot.load_words import load_alt, load_line, load_short, load_title
from roofline.views.plot.theme import LangName, Look, SizeName, ThemeName, look_named, styled
from roofline.views.plot.words import trust_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["load_curve"]

KINDS = ("ttft", "tpot")


def load_curve(
    serving: Serving,
    simulated: Serving | Sequence[Serving] | None = None,
    slo: SLO | None = None,
    *,
    workload: Workload | None = None,
    ax: Sequence[Axes] | None = None,
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> tuple[Axes, Axes]:
    """TTFT and TPOT along the rate of requests: p50 and p95, where it saturates, the knee, and what is promised.

    The knee is the first rate whose p95 TTFT is over twice that of the lowest rate. Where the closed form is trusted nowhere
    (a trace), knee and promise are told by the simulated points.

    Parameters
    ----------
    serving : Serving
        By the closed form, at rates from near 0 to saturation.
    simulated : Serving, or several, optional
        Simulated at some rates: points over the lines, with one standard error up and down where there were several runs.
    slo : SLO, optional
        Its limits on p50 and p95 are drawn; all of them say up to what rate it is met.
    workload : Workload, optional
        What is served, for the second line.
    ax : two Axes, optional
        TTFT, TPOT.
    lang : "en" or "zh"
    theme : "light" or "dark"
    size : "page" (7.2 × 4.6 in), "column" (3.5 × 2.8 a panel, one above the other) or "slide" (10 × 5.6)

    Returns
    -------
    tuple of two Axes
        With `roofline_data` (a row a rate, then a row a simulated point) and `roofline_alt` each.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from roofline.answers.serving import serve
    >>> from roofline.specs.catalog import hardware, model
    >>> from roofline.specs.deployment import Deployment
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> w = Workload.fixed(prompt_tokens=1024, output_tokens=128)
    >>> most = serve(d, w, rate_per_s=1.0).saturation_per_s
    >>> ttft, tpot = load_curve(serve(d, w, rate_per_s=np.linspace(0.01, 0.99, 50) * most, method="closed form"))
    >>> ttft.get_title(loc="left").startswith("p95 TTFT doubles at")
    True
    >>> plt.close(ttft.figure)
    """
    look = look_named(theme=theme, size=size, lang=lang)
    given = axes_given(ax, 2)
    if workload is not None:
        require(workload, Workload, "load_curve(workload)")
    curve = load_points(serving, simulated, slo)
    line = load_line(curve, workload, lang)

    def panel(kind: str) -> Panel:
        short = load_short(curve, kind, lang)
        draw: Any = partial(_on, draw_load, curve, kind)
        letter: Any = partial(_on, letter_load, curve, kind)
        return Panel(
            title=load_title(curve, lang) if kind == "ttft" else short, short=short, line=line,
            frame=curve.to_frame(kind), alt=load_alt(curve, kind, lang), draw=draw, letter=letter,
        )  # fmt: skip

    headline = Headline(title=load_title(curve, lang), line=line, trust=trust_of(curve.deployment, lang=lang))
    with styled(look):
        axes = compose([panel(kind) for kind in KINDS], headline=headline, given=given, look=look)
    return axes[0], axes[1]


def _on(act: Any, curve: Any, kind: str, ax: Any, look: Look) -> None:
    act(ax, curve, kind, look)
