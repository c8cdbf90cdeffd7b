"""Measurements under the roof: what a benchmark measured, and what was predicted of it, as points of the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline.answers.estimates import known_of
from roofline.errors import SpecError, shown
from roofline.evidence.comparison import Compared, Row
from roofline.views.plot.roof_beside import TERA
from roofline.views.plot.roof_figure import roofline
from roofline.views.plot.speech import Speech
from roofline.views.plot.theme import LangName, SizeName, ThemeName, look_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["compared"]

SAY = Speech(
    label=("{what}, batch {batch}", "{what}，批量 {batch}"),
    alt=(
        " Hollow diamonds are predicted ({said}). Measured time over predicted: {off}.",
        "空心菱形为预测（{said}）。实测时间与预测之比：{off}。",
    ),
)  # fmt: skip
MOST = 8  # points that can be told apart with a label each


def compared(
    found: Compared,
    *,
    ax: Axes | None = None,
    lang: LangName = "en",
    theme: ThemeName = "light",
    size: SizeName = "page",
) -> Axes:
    """Where measured first tokens and decode steps stand under the roof of the chip, and where they were predicted.

        point = (F / Q of its passes, F / seconds measured)

    Filled diamonds are measured, hollow ones predicted, at the same intensity. The lines are those of `roofline`, for the
    shape of the first run. Of many points, eight are drawn, evenly over their intensities.

    Parameters
    ----------
    found : Compared
        Of `roofline.compare`; of a benchmark, since a log has no times.
    ax, lang, theme, size
        As in `roofline`.

    Returns
    -------
    Axes
        With `roofline_data`, in which the series "predicted" stands beside "measured", and `roofline_alt`.
    """
    look = look_named(theme=theme, size=size, lang=lang)
    if not isinstance(found, Compared):
        raise SpecError(
            f"plot: expected a comparison, got {shown(found)}; make one with roofline.compare(path, deployment)"
        )
    rows = _drawn([row for row in found.compared if row.what in ("ttft", "tpot") and row.intensity])
    if not rows:
        raise SpecError(f"{found.path}: no first token or decode step was compared, so there is no point to draw")
    measured = [(row.intensity or 0.0, row.measured_flops_per_s or 0.0, _label(row, lang)) for row in rows]
    axes = roofline(found.deployment, **_request(rows[0]), ax=ax, lang=lang, theme=theme, size=size, measured=measured)
    axes.plot(
        [row.intensity or 0.0 for row in rows], [(row.predicted_flops_per_s or 0.0) / TERA for row in rows],
        linestyle="none", marker="D", markersize=5.5, color=look.theme.ink, markerfacecolor="none", zorder=6.5,
        label="predicted",
    )  # fmt: skip
    _tell(axes, rows, known_of(found.deployment).said, lang)
    return axes


def _drawn(rows: Sequence[Row]) -> list[Row]:
    """At most so many, evenly over their intensities; in the order of the file."""
    if len(rows) <= MOST:
        return list(rows)
    ordered = sorted(range(len(rows)), key=lambda i: rows[i].intensity or 0.0)
    kept = {ordered[round(i * (len(rows) - 1) / (MOST - 1))] for i in range(MOST)}
    return [rows[i] for i in sorted(kept)]


def _label(row: Row, lang: LangName) -> str:
    return SAY(lang, "label", what=row.what.upper(), batch=f"{row.batch or 1:g}")


def _request(row: Row) -> dict[str, Any]:
    """The shape of a run, in whole tokens."""
    prompt = round((row.prompt_tokens or 0.0) + (row.past_tokens or 0.0)) or 1
    return {"prompt_tokens": prompt, "output_tokens": max(2, round(row.output_tokens or 0.0)),
            "batch": max(1, round(row.batch or 1.0))}  # fmt: skip


def _tell(axes: Any, rows: Sequence[Row], said: str, lang: LangName) -> None:
    """The predicted points in the data and the words of the figure."""
    import pandas as pd

    more = [
        {"series": "predicted", "label": _label(row, lang), "intensity": row.intensity,
         "flops_per_s": row.predicted_flops_per_s, "asked": False}
        for row in rows
    ]  # fmt: skip
    axes.roofline_data = pd.concat([axes.roofline_data, pd.DataFrame(more)], ignore_index=True)
    off = ("，" if lang == "zh" else ", ").join(
        f"{_label(row, lang)} {100.0 * (row.ratio or 1.0):.0f} %" for row in rows
    )
    axes.roofline_alt += SAY(lang, "alt", said=said, off=off)
