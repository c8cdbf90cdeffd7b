"""What the load curve says, in English and in Chinese: the finding, the subject, what stands beside the marks, alt text."""

from __future__ import annotations

import numpy as np

from roofline.specs.workload import Workload
from roofline.units import format_si
from roofline.views.plot import words
from roofline.views.plot.lettering import pick, sig
from roofline.views.plot.load_points import Floats, LoadCurve
from roofline.views.plot.speech import Speech
from roofline.views.plot.theme import LangName

__all__ = ["SAY", "load_alt", "load_line", "load_short", "load_title"]

SAY = Speech(
    x=("Requests a second that arrive", "每秒到达的请求数"),
    knee=("knee {at}", "膝点 {at}"),
    saturation=("saturates at {at}", "在 {at} 处饱和"),
    rough=("not trusted", "不可信"),
    simulated=("simulated", "仿真"),
    simulated_error=("simulated, ± 1 s.e.", "仿真，± 1 标准误"),
    slo=("{share} ≤ {limit}", "{share} ≤ {limit}"),
    title_knee=("Knee at {knee} req/s", "膝点在 {knee} 请求/s"),
    title_free=("No knee up to {most} req/s", "到 {most} 请求/s 为止没有膝点"),
    title_share=("{knee}, {share} % of what it can serve", "{knee}，为可服务上限的 {share} %"),
    title_met=("{knee}; {what} up to {at}", "{knee}；到 {at} 为止{what}"),
    title_all=("{knee}; {what} up to {at} at least", "{knee}；至少到 {at} {what}"),
    title_never=("{knee}; {what} at no rate", "{knee}；任何速率下都不能{what}"),
    keeps=("{share} {kind} meets {limit}", " {share} {kind} 满足 {limit}"),
    keeps_all=("the SLO is met", "满足 SLO"),
    ttft=("p95 TTFT doubles at {at} req/s", "p95 TTFT 在 {at} 请求/s 处翻倍"),
    ttft_free=("p95 TTFT never doubles", "p95 TTFT 从不翻倍"),
    tpot=("p95 TPOT {first}, {last} at the knee", "p95 TPOT 空载 {first}，膝点 {last}"),
    tpot_free=("p95 TPOT {first}, {last} near saturation", "p95 TPOT 空载 {first}，近饱和 {last}"),
    rule=("knee: p95 TTFT over 2× its {idle} at no load", "膝点：p95 TTFT 超过空载值 {idle} 的 2 倍"),
    by_points=(", by the simulated points", "，按仿真点"),
    replicas=("{n} replicas", "{n} 个副本"),
    shape=("{prompt} in / {output} out", "输入 {prompt} / 输出 {output}"),
    mean=(" in the mean", "（均值）"),
    Poisson=("Poisson arrivals", "泊松到达"),
    Gamma=("gamma arrivals", "伽马到达"),
    Recorded=("recorded arrivals", "实录到达"),
    Piecewise=("arrivals whose rate moves", "变速到达"),
)  # fmt: skip


def load_title(curve: LoadCurve, lang: LangName) -> str:
    """The finding: where waiting begins to hurt, and up to what rate the promise is kept."""
    free = curve.knee is None
    head = SAY(lang, "title_free", most=sig(curve.judged_to)) if free else SAY(lang, "title_knee", knee=_at(curve))
    if curve.slo is None or curve.up_to is None:
        if curve.knee is None:
            return head
        return pick(SAY(lang, "title_share", knee=head, share=f"{100 * curve.knee / curve.saturation:.0f}"), head)
    what = _promise(curve, lang)
    name = "title_never" if curve.up_to <= 0.0 else "title_all" if curve.up_to >= curve.judged_to else "title_met"
    return pick(SAY(lang, name, knee=head, what=what, at=sig(curve.up_to) if curve.up_to > 0.0 else ""), head)


def _at(curve: LoadCurve) -> str:
    return sig(curve.knee) if curve.knee is not None else ""


def _promise(curve: LoadCurve, lang: LangName) -> str:
    limits = {} if curve.slo is None else curve.slo.limits
    if len(limits) != 1:
        return SAY(lang, "keeps_all")
    (name, limit), *_ = limits.items()
    kind, share = name.removesuffix("_s").split("_")
    return SAY(lang, "keeps", share=share, kind=kind.upper(), limit=format_si(limit, "s"))


def load_short(curve: LoadCurve, kind: str, lang: LangName) -> str:
    """The finding of one panel."""
    if kind == "ttft":
        return SAY(lang, "ttft", at=sig(curve.knee)) if curve.knee is not None else SAY(lang, "ttft_free")
    first, last = _tpot(curve)
    return SAY(lang, "tpot" if _knee_inside(curve) else "tpot_free", first=first, last=last)


def _knee_inside(curve: LoadCurve) -> bool:
    return curve.knee is not None and curve.knee <= curve.judged_to


def _tpot(curve: LoadCurve) -> tuple[str, str]:
    """p95 TPOT at the lowest rate, and at the knee or the last rate; of what knee and promise are told by."""
    rates, values = _judged(curve, "tpot_p95_s")
    at = curve.knee if curve.knee is not None and _knee_inside(curve) else float(rates[-1])
    return format_si(float(values[0]), "s"), format_si(float(np.interp(at, rates, values)), "s")


def _judged(curve: LoadCurve, name: str) -> tuple[Floats, Floats]:
    """Rates and times that knee and promise are told by  [1/s, s]."""
    points = curve.simulated
    return (
        (curve.rates, curve.times[name])
        if points is None or not curve.by_points
        else (points.rates, points.times[name])
    )


def load_line(curve: LoadCurve, workload: Workload | None, lang: LangName) -> str:
    """Second line: model, hardware, formats, engine, requests; what the knee is."""
    shape = "" if curve.n_replicas == 1 else SAY(lang, "replicas", n=f"{curve.n_replicas:,}")
    if workload is not None:
        shape = " · ".join(part for part in (shape, _requests(workload, lang)) if part)
    line = words.subject(curve.deployment, shape, lang=lang)
    rule = SAY(lang, "rule", idle=format_si(curve.idle_s, "s"))
    return f"{line} · {rule}{SAY(lang, 'by_points') if curve.by_points else ''}"


def _requests(w: Workload, lang: LangName) -> str:
    shape = SAY(lang, "shape", prompt=f"{w.mean_prompt_tokens:,.0f}", output=f"{w.mean_output_tokens:,.0f}")
    mean = "" if len(w) == 1 else SAY(lang, "mean")
    come = SAY(lang, name) if (name := type(w.arrivals).__name__) in SAY else ""
    return ", ".join(part for part in (f"{w.name} {shape}{mean}".strip(), come) if part)


def load_alt(curve: LoadCurve, kind: str, lang: LangName) -> str:
    """A paragraph that says what a panel shows."""
    name = kind.upper()
    rates, values = _judged(curve, f"{kind}_p95_s")
    first, last = (format_si(float(values[i]), "s") for i in (0, -1))
    low, high = sig(float(rates[0])), sig(float(rates[-1]))
    evidence = words.sentence(words.trust_of(curve.deployment, lang=lang))
    n = 0 if curve.simulated is None else curve.simulated.rates.size
    if lang == "zh":
        points = f"另有 {n} 个仿真点。" if n else ""
        return (
            f"{name} 的 p50 与 p95 随每秒到达请求数的变化：p95 从 {low} 请求/s 时的 {first} 到 {high} 请求/s 时的 {last}，"
            f"在 {sig(curve.saturation)} 请求/s 处饱和。{load_title(curve, lang)}。{points}{evidence}"
        )
    points = f" {n} points are simulated." if n else ""
    return (
        f"{name} at p50 and p95 against requests a second that arrive: p95 goes from {first} at {low} to {last} at {high}; "
        f"it saturates at {sig(curve.saturation)}. {load_title(curve, lang)}.{points} {evidence}"
    )
