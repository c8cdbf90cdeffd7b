"""What the figure without FlashAttention says: how many more bytes, and on which side of the ridge either stands."""

from __future__ import annotations

import numpy as np

from roofline.units import format_si
from roofline.views.plot.eager_points import EagerCurves
from roofline.views.plot.lettering import pick, sig, times
from roofline.views.plot.speech import Speech
from roofline.views.plot.theme import LangName
from roofline.views.plot.words import sentence, subject, trust_of

__all__ = ["SAY", "bytes_alt", "bytes_short", "eager_line", "eager_title", "intensity_alt", "intensity_short"]

SAY = Speech(
    x=("Prompt tokens", "提示 token 数"),
    y_bytes=("{memory} traffic of the prefill (GB)", "预填充的 {memory} 流量（GB）"),
    y_intensity=("Intensity of the prefill (FLOP/B)", "预填充的算术强度（FLOP/B）"),
    eager=("eager {value}", "eager {value}"),
    flash=("flash {value}", "flash {value}"),
    ridge=("ridge {at}", "拐点 {at}"),
    end=("scores\nfill memory", "分数\n占满内存"),
    compute_bound=("compute-bound", "计算受限"),
    memory_bound=("memory-bound", "访存受限"),
    none=(
        "{model} has no scores to move: FlashAttention changes nothing",
        "{model} 没有分数要搬：FlashAttention 不改变什么",
    ),
    needs=(
        "Without FlashAttention {n} tokens need {bytes} for one layer's scores",
        "没有 FlashAttention，{n} token 的一层分数要 {bytes}",
    ),
    needs_short=("Scores need {bytes} a layer", "一层分数要 {bytes}"),
    moves=("Without FlashAttention, reading {n} tokens moves {more}", "没有 FlashAttention，读 {n} token 要搬 {more}"),
    moves_short=("Without FlashAttention a prefill moves {more}", "没有 FlashAttention，预填充要搬 {more}"),
    factor=("{times} the bytes", "{times} 的字节"),
    percent=("{share} % more bytes", "多 {share} % 的字节"),
    until=("eager fits up to {n} tokens", "eager 放得下 {n} token"),
    scores=("{scores} of scores on top of {rest}", "在 {rest} 之上再加 {scores} 的分数"),
    drops=("Intensity drops below the ridge", "算术强度掉到拐点以下"),
    below=("Intensity is below the ridge anyway", "算术强度本就在拐点以下"),
    falls=("Intensity drops from {flash} to {eager}", "算术强度从 {flash} 掉到 {eager}"),
    same=("Intensity is the same", "算术强度不变"),
    bytes_alt=(
        "Memory traffic of a prefill against prompt length, log-log, batch {batch}, with FlashAttention and "
        "without. {title}: "
        "{eager} in place of {flash} at {n} tokens; {scores} are score matrices, {masked} % of that masked out.{end} "
        "{evidence}",
        "预填充的内存流量随提示长度的变化，双对数坐标，批量 {batch}，有与没有 FlashAttention。{title}：{n} token "
        "时 {flash} 变为 {eager}；"
        "其中 {scores} 是分数矩阵，{masked} % 被掩去。{end}{evidence}",
    ),
    bytes_end=(
        " Beyond {n} tokens the scores of one layer do not fit in memory.",
        "超过 {n} token 时一层分数就放不进内存。",
    ),
    intensity_alt=(
        "Arithmetic intensity of the same prefill against prompt length, log-log, with the ridge at {ridge} "
        "FLOP/B. At {n} "
        "tokens {flash} FLOP/B with FlashAttention and {eager} without. With it the intensity grows with the "
        "prompt; without, "
        "it is highest at about {best} tokens ({most}). {evidence}",
        "同一预填充的算术强度随提示长度的变化，双对数坐标，拐点 {ridge} FLOP/B。{n} token 时有 FlashAttention 为 "
        "{flash} FLOP/B，没有为 "
        "{eager}。有它时强度随提示增长；没有时约在 {best} token 处最高（{most}）。{evidence}",
    ),
)  # fmt: skip


def eager_title(curves: EagerCurves, lang: LangName) -> str:
    """The finding across both panels."""
    n = f"{curves.asked:,.0f}"
    if curves.value("score_bytes") <= 0.0:
        return pick(SAY(lang, "none", model=curves.deployment.model.id))
    if curves.asked > curves.fits_until and curves.short_by_bytes <= 0.0:
        needed = format_si(curves.value("score_matrix_bytes"), "B")
        return pick(SAY(lang, "needs", n=n, bytes=needed), SAY(lang, "needs_short", bytes=needed))
    factor = curves.value("bytes_factor")
    more = SAY(lang, "factor", times=times(factor))
    if factor < 1.1:
        more = SAY(lang, "percent", share=f"{100.0 * (factor - 1.0):.1f}")
    return pick(SAY(lang, "moves", n=n, more=more), SAY(lang, "moves_short", more=more))


def eager_line(curves: EagerCurves, shape: str, lang: LangName) -> str:
    """Second line: the subject, and where eager ends."""
    end = 0.0 < curves.fits_until < curves.prompts[-1]
    said = SAY(lang, "until", n=f"{curves.fits_until:,.0f}") if end else ""
    who = subject(curves.deployment, shape, curves.short_by_bytes, lang=lang)
    return " · ".join(part for part in (who, said) if part)


def bytes_short(curves: EagerCurves, lang: LangName) -> str:
    """The finding of the bytes, among others."""
    scores, rest = curves.value("score_bytes"), curves.value("flash_hbm_bytes")
    return SAY(lang, "scores", scores=format_si(scores, "B"), rest=format_si(rest, "B"))


def intensity_short(curves: EagerCurves, lang: LangName) -> str:
    """The finding of the intensities: which side of the ridge either stands on."""
    flash, eager, ridge = curves.value("flash_intensity"), curves.value("eager_intensity"), curves.along.ridge
    if flash >= ridge > eager:
        return SAY(lang, "drops")
    if flash < ridge:
        return SAY(lang, "below")
    return SAY(lang, "falls", flash=sig(flash), eager=sig(eager)) if eager < flash else SAY(lang, "same")


def bytes_alt(curves: EagerCurves, lang: LangName) -> str:
    """A paragraph that says what the panel of bytes shows."""
    flash, eager = (format_si(curves.value(f"{k}_hbm_bytes"), "B") for k in ("flash", "eager"))
    masked = curves.value("masked_score_bytes") / max(curves.value("score_bytes"), 1.0)
    end = "" if curves.fits.all() else SAY(lang, "bytes_end", n=f"{curves.fits_until:,.0f}")
    return SAY(
        lang, "bytes_alt", batch=f"{curves.batch:.0f}", title=eager_title(curves, lang), eager=eager, flash=flash,
        n=f"{curves.asked:,.0f}", scores=format_si(curves.value("score_bytes"), "B"), masked=f"{100.0 * masked:.0f}",
        end=end, evidence=sentence(trust_of(curves.deployment, lang=lang)),
    )  # fmt: skip


def intensity_alt(curves: EagerCurves, lang: LangName) -> str:
    """A paragraph that says what the panel of intensities shows."""
    flash, eager = (sig(curves.value(f"{k}_intensity")) for k in ("flash", "eager"))
    best = int(np.argmax(np.where(curves.is_drawn, curves.of("eager_intensity"), 0.0)))
    return SAY(
        lang, "intensity_alt", ridge=sig(curves.along.ridge), n=f"{curves.asked:,.0f}", flash=flash, eager=eager,
        best=f"{curves.prompts[best]:,.0f}", most=sig(float(curves.of("eager_intensity")[best])),
        evidence=sentence(trust_of(curves.deployment, lang=lang)),
    )  # fmt: skip
