"""What the accuracy figures say: how far estimates are off, of what, and what was held out."""

from __future__ import annotations

import numpy as np

from roofline.evidence.accuracy import HELD_OUT, WHATS
from roofline.evidence.accuracy.records import share, signed
from roofline.views.plot.accuracy_points import FAMILIES, Points, Spread, median_error
from roofline.views.plot.lettering import pick, times
from roofline.views.plot.speech import Speech
from roofline.views.plot.theme import LangName

__all__ = [
    "SAY", "families_of", "family_said", "held_out", "residuals_alt", "residuals_title", "row_said", "scatter_alt",
    "scatter_title", "trust",
]  # fmt: skip

_ROWS = {"decode": "解码", "prefill": "预填充", "whole requests": "整个请求", "others": "其他",
         "decode, one sequence": "解码，单序列", "decode, several sequences": "解码，多序列",
         "prefill, one prompt": "预填充，单提示", "prefill, several prompts": "预填充，多提示"}  # fmt: skip
SAY = Speech(
    measured=("Measured (s)", "实测（s）"),
    predicted=("Predicted (s)", "预测（s）"),
    ratio=("Predicted / measured", "预测 / 实测"),
    count=("{name}, {n}", "{name}，{n}"),
    band=("grey: measured ×/÷ {factor},\nholds 80 % of the points", "灰带：实测 ×/÷ {factor}，\n容纳 80 % 的点"),
    ttft=("TTFT", "TTFT"),
    tpot=("TPOT", "TPOT"),
    e2e=("whole requests", "整个请求"),
    all=("TTFT, TPOT and whole requests", "TTFT、TPOT 与整个请求"),
    trust=("predicted by what was fitted without them", "由不含它们的拟合预测"),
    fitted=("predicted by what was fitted to them", "由含它们的拟合预测"),
    half=(
        "Half of the estimates are within {half}, nine in ten within {most}",
        "半数估计误差在 {half} 内，九成在 {most} 内",
    ),
    half_short=("Half are within {half}", "半数在 {half} 内"),
    within=("Half of {name} is within {share}", "{name} 半数在 {share} 内"),
    from_to=("Median error from {near} ({best}) to {far} ({worst})", "中位误差从 {near}（{best}）到 {far}（{worst}）"),
    from_to_short=("Median error from {near} to {far}", "中位误差从 {near} 到 {far}"),
    line=("{kinds}, {said} · {n} published figures · bias {bias}", "{kinds}，{said} · {n} 个公开数据 · 偏差 {bias}"),
    held=("{what} held out", "{what}"),
    kept=("{what}", "{what}"),
    scatter_alt=(
        "Predicted against measured seconds on equal log axes; {line}. {title}. A band of {factor} up and down "
        "holds 80 % of "
        "the points. Median error by engine: {listed}.",
        "预测秒数对实测秒数，相同的对数坐标；{line}。{title}。上下 {factor} 倍的带容纳 80 % 的点。"
        "各引擎的中位误差：{listed}。",
    ),
    residuals_alt=(
        "Predicted over measured by {by}, a box for the middle half of each and a line for the middle 80 %; "
        "{line}. {title}. "
        "Median error: {listed}.",
        "按 {by} 的预测与实测之比，箱为中间一半，线为中间 80 %；{line}。{title}。中位误差：{listed}。",
    ),
    listed=("{name} {error} of {n}, middle {middle}", "{name} {error}（{n} 个，中位 {middle}）"),
)  # fmt: skip
_HELD_OUT = {
    "in-sample": "样本内", "model": "留出一个模型", "tp": "留出一种并行度", "hardware": "留出一种硬件",
    "engine": "留出一个引擎",
}  # fmt: skip


def families_of(shown: Points) -> list[str]:
    """Those that are there, in their order."""
    return [family for family in FAMILIES if np.any(shown.families == family)]


def family_said(family: str, lang: LangName) -> str:
    """A family of engines; a name is the same in every language."""
    return row_said(family, lang)


def row_said(name: str, lang: LangName) -> str:
    """A row's name; that of an engine or a machine is the same in every language."""
    return _ROWS.get(name, name) if lang == "zh" else name


def trust(regime: str, lang: LangName) -> str:
    """Whether the estimates had seen what they are held against."""
    return SAY(lang, "fitted" if regime == "in-sample" else "trust")


def scatter_title(shown: Points, lang: LangName) -> str:
    """What the figure finds: how far half and nine in ten of the estimates are off."""
    off = np.abs(shown.ratios - 1.0)
    half, most = share(float(np.median(off))), share(float(np.quantile(off, 0.9)))
    return pick(SAY(lang, "half", half=half, most=most), SAY(lang, "half_short", half=half))


def held_out(shown: Points, lang: LangName) -> str:
    """Second line: what was held out, of how many figures, and the bias."""
    kinds = SAY(lang, "all") if shown.what is None else WHATS[shown.what] if lang == "en" else SAY(lang, shown.what)
    what = HELD_OUT[shown.regime] if lang == "en" else _HELD_OUT[shown.regime]
    said = SAY(lang, "kept" if shown.regime == "in-sample" else "held", what=what)
    bias = signed(float(np.median(shown.ratios)) - 1.0)
    return SAY(lang, "line", kinds=kinds, said=said, n=f"{len(shown.rows):,}", bias=bias)


def scatter_alt(shown: Points, lang: LangName) -> str:
    """The figure in words."""
    errors = [(f, share(median_error(shown.ratios[shown.families == f]))) for f in families_of(shown)]
    listed = "; ".join(f"{family_said(family, lang)} {error}" for family, error in errors)
    said = {"line": held_out(shown, lang), "title": scatter_title(shown, lang), "factor": f"{shown.factor:.2f}"}
    return SAY(lang, "scatter_alt", listed=listed, **said)


def residuals_title(found: tuple[Spread, ...], lang: LangName) -> str:
    """What the figure finds: the name that is off least, and the one that is off most, of those with ten figures or more."""
    known = [spread for spread in found if len(spread.all) >= 10] or list(found)
    best, worst = known[0], known[-1]
    near, far = share(median_error(best.all)), share(median_error(worst.all))
    if best is worst:
        return pick(SAY(lang, "within", name=row_said(best.name, lang), share=near))
    names = {"best": row_said(best.name, lang), "worst": row_said(worst.name, lang)}
    return pick(SAY(lang, "from_to", near=near, far=far, **names), SAY(lang, "from_to_short", near=near, far=far))


def residuals_alt(found: tuple[Spread, ...], shown: Points, by: str, lang: LangName) -> str:
    """The figure in words."""
    listed = "; ".join(
        SAY(
            lang, "listed", name=row_said(s.name, lang), error=share(median_error(s.all)), n=f"{len(s.all):,}",
            middle=times(s.quantiles[2]),
        )
        for s in found
    )  # fmt: skip
    said = {"line": held_out(shown, lang), "title": residuals_title(found, lang)}
    return SAY(lang, "residuals_alt", by=by, listed=listed, **said)
