"""What the heat maps say: the answer asked for, and how much of the plane keeps the promise."""

from __future__ import annotations

import numpy as np

from roofline.units import format_si
from roofline.views.plot.heat_points import Heat
from roofline.views.plot.latency_words import SAY as LATENCY
from roofline.views.plot.lettering import pick
from roofline.views.plot.speech import Speech
from roofline.views.plot.theme import LangName
from roofline.views.plot.words import sentence, trust_of

__all__ = ["SAY", "heat_alt", "heat_short", "heats_title"]

SAY = Speech(
    bar=("{kind} (ms)", "{kind}（ms）"),
    none_fits=("{kind}: nothing fits", "{kind}：什么都放不下"),
    spans=("{kind} from {low} to {high}, cells in ms", "{kind} 从 {low} 到 {high}，格内为毫秒"),
    keeps=(
        "{kind} within {limit} in {n} of {all} cells, in ms",
        "{all} 格中 {n} 格 {kind} 不超过 {limit}，单位毫秒",
    ),
    title=("{model} on {chip}: {answer}", "{model}，{chip}：{answer}"),
    title_none=("{model} does not fit on {chip}", "{model} 在 {chip} 上放不下"),
    alt=(
        "{kind} over {across} across and batch up, in cells of powers of 2; {fit} of {all} cells fit. {short}. At "
        "{n} tokens and "
        "batch {batch} it is {asked}. {evidence}",
        "{kind}，横轴为{across}，纵轴为批量，每格为 2 的幂；{all} 格中 {fit} 格放得下。{short}。{n} token、批量 "
        "{batch} 时为 "
        "{asked}。{evidence}",
    ),
    prompt=("prompt", "提示"),
    context=("context", "上下文"),
)  # fmt: skip


def heats_title(ttft: Heat, tpot: Heat, lang: LangName) -> str:
    """The answer for the cell that was asked about."""
    d = ttft.deployment
    who = {"model": d.model.id, "chip": d.hardware.id}
    if not (ttft.fits.any() or tpot.fits.any()):
        return pick(SAY(lang, "title_none", **who))
    answer = LATENCY(lang, "answer", ttft=format_si(ttft.asked_s, "s"), tpot=format_si(tpot.asked_s, "s"))
    return pick(SAY(lang, "title", answer=answer, **who), f"{answer[0].upper()}{answer[1:]}")


def heat_short(heat: Heat, lang: LangName) -> str:
    """How much of a plane keeps the promise; without one, from where to where it goes."""
    kind = heat.kind.upper()
    if not heat.fits.any():
        return SAY(lang, "none_fits", kind=kind)
    if heat.limit is not None:
        counts = {"n": int(heat.kept.sum()), "all": int(heat.fits.sum()), "limit": format_si(heat.limit, "s")}
        return SAY(lang, "keeps", kind=kind, **counts)
    low, high = (format_si(float(edge), "s") for edge in (np.nanmin(heat.seconds), np.nanmax(heat.seconds)))
    return SAY(lang, "spans", kind=kind, low=low, high=high)


def heat_alt(heat: Heat, lang: LangName) -> str:
    """A paragraph that says what one panel shows."""
    return SAY(
        lang, "alt", kind=heat.kind.upper(), across=SAY(lang, "prompt" if heat.kind == "ttft" else "context"),
        fit=int(heat.fits.sum()), all=heat.fits.size, short=heat_short(heat, lang), n=f"{heat.asked_tokens:,.0f}",
        batch=f"{heat.asked_batch:,.0f}", asked=format_si(heat.asked_s, "s"),
        evidence=sentence(trust_of(heat.deployment, lang=lang)),
    )  # fmt: skip
