"""What the latencies say: where arithmetic takes over, what the whole memory costs, up to where a promise is kept."""

from __future__ import annotations

from roofline.units import format_si
from roofline.views.plot.latency_points import ContextLine, TpotLines, TtftCurve
from roofline.views.plot.lettering import pick
from roofline.views.plot.speech import Speech
from roofline.views.plot.theme import LangName
from roofline.views.plot.words import bound_as, does_not_fit, sentence, trust_of

__all__ = ["SAY", "latency_title", "tpot_alt", "tpot_title", "ttft_alt", "ttft_title"]

SAY = Speech(
    prompts=("Prompt tokens", "提示 token 数"),
    contexts=("Context (tokens)", "上下文（token）"),
    batches=("Batch (sequences)", "批量（序列）"),
    total=("tok/s", "tok/s"),
    floor=("floor", "下限"),
    estimate=("estimate", "估计"),
    compute_bound=("compute-bound", "计算受限"),
    at=("{time} at {n}", "{n} 时 {time}"),
    promise=("SLO {limit}", "SLO {limit}"),
    cut=("one pass up to {n}", "一次前向至 {n}"),
    half=("half is attention", "注意力占一半"),
    full=("KV full at {n}", "KV 在 {n} 处满"),
    no_room=("does not fit", "放不下"),
    context=("context {n}", "上下文 {n}"),
    title_none=("{model} does not fit on {chip} at batch {n}", "{model} 在 {chip} 上放不下批量 {n}"),
    title_none_short=("Does not fit", "放不下"),
    answer=("first token after {ttft}, then one every {tpot}", "{ttft} 后首 token，之后每 {tpot} 一个"),
    title=("{model} on {chip}: {answer}", "{model}，{chip}：{answer}"),
    title_chip=("{chip}: {answer}", "{chip}：{answer}"),
    ttft_bound=("Prefill is {bound} up to {n} prompt tokens", "提示到 {n} token 为止，预填充都是{bound}"),
    ttft_always=("Prefill is compute-bound at any prompt length", "提示无论多长，预填充都是计算受限"),
    ttft_knee=("Prefill turns compute-bound at {n} prompt tokens", "提示到 {n} token 时预填充转为计算受限"),
    ttft_knee_each=("Prefill turns compute-bound at {n} prompt tokens each", "每条提示 {n} token 时预填充转为计算受限"),
    ttft_passes=("TTFT passes {limit} above {n} prompt tokens", "提示超过 {n} token 时 TTFT 超出 {limit}"),
    ttft_kept=(
        "TTFT stays under {limit} up to {n} prompt tokens, all that fit",
        "能放下的提示（至 {n} token）TTFT 都不超过 {limit}",
    ),
    ttft_never=("TTFT is over {limit} for any prompt", "任何提示的 TTFT 都超出 {limit}"),
    tpot_one=("TPOT is {first}, and one sequence is all that fits", "TPOT 为 {first}，只放得下一条序列"),
    tpot_span=(
        "TPOT goes from {first} alone to {last} at batch {n}, all that fits",
        "TPOT 从单条的 {first} 到批量 {n}（放满）的 {last}",
    ),
    tpot_kept=("TPOT stays under {limit} up to batch {n}", "到批量 {n} 为止 TPOT 不超过 {limit}"),
    tpot_kept_all=(
        "TPOT stays under {limit} up to batch {n}, all that fits",
        "到批量 {n}（放满）TPOT 都不超过 {limit}",
    ),
    tpot_never=("TPOT is over {limit} at any batch", "任何批量的 TPOT 都超出 {limit}"),
    ttft_alt=(
        "Time to first token against prompt length, log-log, batch {batch}, from {first} at {low} tokens to {last} "
        "at {high}; "
        "{asked} at {n}. {title}.{band} {evidence}",
        "首 token 时间随提示长度的变化，双对数坐标，批量 {batch}：{low} token 时 {first}，{high} 时 {last}；{n} 时 "
        "{asked}。{title}。"
        "{band}{evidence}",
    ),
    band=(
        " A band from {low} to {high} times the estimate holds four of five measurements.",
        "估计值 {low} 到 {high} 倍的带容纳五分之四的实测。",
    ),
    tpot_alt=(
        "Time per output token against batch, one line a context; {full}. {title}. At batch {n} a token takes "
        "{asked}.{band} "
        "{evidence}",
        "每输出 token 时间随批量的变化，每个上下文一条线；{full}。{title}。批量 {n} 时每 token {asked}。"
        "{band}{evidence}",
    ),
    alt_full=("context {context} is full at batch {n}", "上下文 {context} 在批量 {n} 处放满"),
)  # fmt: skip


def latency_title(ttft: TtftCurve, tpot: TpotLines, lang: LangName) -> str:
    """The answer for the point asked about."""
    d = ttft.deployment
    who = {"model": d.model.id, "chip": d.hardware.id}
    if tpot.lines[0].full_at < tpot.asked:
        return pick(SAY(lang, "title_none", n=f"{tpot.asked:.0f}", **who), SAY(lang, "title_none_short"))
    answer = SAY(lang, "answer", ttft=format_si(ttft.asked_s, "s"), tpot=format_si(tpot.asked_s, "s"))
    long, short = SAY(lang, "title", answer=answer, **who), SAY(lang, "title_chip", answer=answer, chip=who["chip"])
    return pick(long, short, f"{answer[0].upper()}{answer[1:]}")


def ttft_title(curve: TtftCurve, lang: LangName) -> str:
    """Up to which prompt a promise is kept; without one, where waiting for memory turns into waiting for arithmetic."""
    if curve.limit is not None:
        name = "ttft_never" if not curve.kept_until else "ttft_passes"
        name = "ttft_kept" if curve.kept_until >= curve.prompts[-1] else name
        return SAY(lang, name, limit=format_si(curve.limit, "s"), n=f"{curve.kept_until:,.0f}")
    if curve.knee is None:
        return SAY(lang, "ttft_bound", bound=bound_as(str(curve.bound[0]), lang), n=f"{curve.prompts[-1]:,.0f}")
    if curve.knee <= 1.0:
        return SAY(lang, "ttft_always")
    return SAY(lang, "ttft_knee_each" if curve.batch > 1.0 else "ttft_knee", n=f"{curve.knee:,.0f}")


def tpot_title(tpot: TpotLines, lang: LangName) -> str:
    """Up to which batch a promise is kept; without one, what the whole memory costs, from one sequence to all that fit."""
    line = tpot.lines[0]
    if line.full_at < 1.0:
        return does_not_fit(tpot.deployment, line.context, lang)
    if tpot.limit is not None:
        name = "tpot_kept_all" if tpot.kept_until >= line.full_at else "tpot_kept" if tpot.kept_until else "tpot_never"
        return SAY(lang, name, limit=format_si(tpot.limit, "s"), n=f"{tpot.kept_until:,.0f}")
    first, last = format_si(float(line.seconds[0]), "s"), format_si(_at_full(line), "s")
    if line.full_at == 1.0:
        return SAY(lang, "tpot_one", first=first)
    return SAY(lang, "tpot_span", first=first, last=last, n=f"{line.full_at:,.0f}")


def _at_full(line: ContextLine) -> float:
    return float(line.seconds[line.batches <= line.full_at][-1])


def ttft_alt(curve: TtftCurve, lang: LangName) -> str:
    """A paragraph that says what the TTFT panel shows."""
    return SAY(
        lang, "ttft_alt", batch=f"{curve.batch:.0f}", first=format_si(float(curve.seconds[0]), "s"),
        low=f"{curve.prompts[0]:,.0f}", last=format_si(float(curve.seconds[-1]), "s"), high=f"{curve.prompts[-1]:,.0f}",
        asked=format_si(curve.asked_s, "s"), n=f"{curve.asked:,.0f}", title=ttft_title(curve, lang),
        band=_band(curve, lang), evidence=sentence(trust_of(curve.deployment, lang=lang)),
    )  # fmt: skip


def _band(line: TtftCurve | ContextLine, lang: LangName) -> str:
    """The interval, as factors of the estimate."""
    if line.edges is None:
        return ""
    low, high = (float((edge / line.seconds)[-1]) for edge in line.edges)
    return SAY(lang, "band", low=f"{low:.2f}", high=f"{high:.2f}")


def tpot_alt(tpot: TpotLines, lang: LangName) -> str:
    """A paragraph that says what the TPOT panel shows."""
    full = ("；" if lang == "zh" else "; ").join(
        SAY(lang, "alt_full", context=f"{line.context:,.0f}", n=f"{line.full_at:,.0f}") for line in tpot.lines
    )
    return SAY(
        lang, "tpot_alt", full=full, title=tpot_title(tpot, lang), n=f"{tpot.asked:.0f}", asked=format_si(tpot.asked_s, "s"),
        band=_band(tpot.lines[0], lang), evidence=sentence(trust_of(tpot.deployment, lang=lang)),
    )  # fmt: skip
