"""What the load curve says, in English and in Chinese: the finding, the subject, what stands beside the marks, alt text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from roofline.specs.workload import Workload
from roofline.units import format_si
from roofline.views.plot import words
from roofline.views.plot.lettering import pick, sig
from roofline.views.plot.load_points import Floats, LoadCurve

__all__ = ["load_alt", "load_line", "load_short", "load_title", "said"]

WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "x": "Requests a second that arrive", "knee": "knee {at}", "saturation": "saturates at {at}",
        "rough": "not trusted", "simulated": "simulated", "simulated_error": "simulated, ± 1 s.e.",
        "slo": "{share} ≤ {limit}",
        "title_knee": "Knee at {knee} req/s", "title_free": "No knee up to {most} req/s",
        "title_share": "{knee}, {share} % of what it can serve", "title_met": "{knee}; {what} up to {at}",
        "title_all": "{knee}; {what} up to {at} at least", "title_never": "{knee}; {what} at no rate",
        "keeps": "{share} {kind} meets {limit}", "keeps_all": "the SLO is met",
        "ttft": "p95 TTFT doubles at {at} req/s", "ttft_free": "p95 TTFT never doubles",
        "tpot": "p95 TPOT {first}, {last} at the knee",
        "tpot_free": "p95 TPOT {first}, {last} near saturation",
        "rule": "knee: p95 TTFT over 2× its {idle} at no load", "by_points": ", by the simulated points",
        "replicas": "{n} replicas", "shape": "{prompt} in / {output} out", "mean": " in the mean",
        "Poisson": "Poisson arrivals", "Gamma": "gamma arrivals", "Recorded": "recorded arrivals",
        "Piecewise": "arrivals whose rate moves",
    },
    "zh": {
        "x": "每秒到达的请求数", "knee": "膝点 {at}", "saturation": "在 {at} 处饱和",
        "rough": "不可信", "simulated": "仿真", "simulated_error": "仿真，± 1 标准误",
        "slo": "{share} ≤ {limit}",
        "title_knee": "膝点在 {knee} 请求/s", "title_free": "到 {most} 请求/s 为止没有膝点",
        "title_share": "{knee}，为可服务上限的 {share} %", "title_met": "{knee}；到 {at} 为止{what}",
        "title_all": "{knee}；至少到 {at} {what}", "title_never": "{knee}；任何速率下都不能{what}",
        "keeps": " {share} {kind} 满足 {limit}", "keeps_all": "满足 SLO",
        "ttft": "p95 TTFT 在 {at} 请求/s 处翻倍", "ttft_free": "p95 TTFT 从不翻倍",
        "tpot": "p95 TPOT 空载 {first}，膝点 {last}",
        "tpot_free": "p95 TPOT 空载 {first}，近饱和 {last}",
        "rule": "膝点：p95 TTFT 超过空载值 {idle} 的 2 倍", "by_points": "，按仿真点",
        "replicas": "{n} 个副本", "shape": "输入 {prompt} / 输出 {output}", "mean": "（均值）",
        "Poisson": "泊松到达", "Gamma": "伽马到达", "Recorded": "实录到达", "Piecewise": "变速到达",
    },
}  # fmt: skip
FORMATS = {"weights and KV": "权重与 KV", " weights": " 权重", "computed in": "以此计算："}


def said(lang: str, name: str, **values: object) -> str:
    """A sentence of a language with its values."""
    return WORDS[lang][name].format(**values)


def load_title(curve: LoadCurve, lang: str) -> str:
    """The finding: where waiting begins to hurt, and up to what rate the promise is kept."""
    free = curve.knee is None
    head = said(lang, "title_free", most=sig(curve.judged_to)) if free else said(lang, "title_knee", knee=_at(curve))
    if curve.slo is None or curve.up_to is None:
        if curve.knee is None:
            return head
        return pick(said(lang, "title_share", knee=head, share=f"{100 * curve.knee / curve.saturation:.0f}"), head)
    what = _promise(curve, lang)
    name = "title_never" if curve.up_to <= 0.0 else "title_all" if curve.up_to >= curve.judged_to else "title_met"
    return pick(said(lang, name, knee=head, what=what, at=sig(curve.up_to) if curve.up_to > 0.0 else ""), head)


def _at(curve: LoadCurve) -> str:
    return sig(curve.knee) if curve.knee is not None else ""


def _promise(curve: LoadCurve, lang: str) -> str:
    limits = {} if curve.slo is None else curve.slo.limits
    if len(limits) != 1:
        return said(lang, "keeps_all")
    (name, limit), *_ = limits.items()
    kind, share = name.removesuffix("_s").split("_")
    return said(lang, "keeps", share=share, kind=kind.upper(), limit=format_si(limit, "s"))


def load_short(curve: LoadCurve, kind: str, lang: str) -> str:
    """The finding of one panel."""
    if kind == "ttft":
        return said(lang, "ttft", at=sig(curve.knee)) if curve.knee is not None else said(lang, "ttft_free")
    first, last = _tpot(curve)
    return said(lang, "tpot" if _knee_inside(curve) else "tpot_free", first=first, last=last)


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


def load_line(curve: LoadCurve, workload: Workload | None, lang: str) -> str:
    """Second line: model, hardware, formats, engine, requests; what the knee is."""
    shape = "" if curve.n_replicas == 1 else said(lang, "replicas", n=f"{curve.n_replicas:,}")
    if workload is not None:
        shape = " · ".join(part for part in (shape, _requests(workload, lang)) if part)
    line = words.subject(curve.deployment, shape)
    if lang == "zh":
        line = line.replace(" on ", "，", 1)
        for english, chinese in FORMATS.items():
            line = line.replace(english, chinese)
    rule = said(lang, "rule", idle=format_si(curve.idle_s, "s"))
    return f"{line} · {rule}{said(lang, 'by_points') if curve.by_points else ''}"


def _requests(w: Workload, lang: str) -> str:
    shape = said(lang, "shape", prompt=f"{w.mean_prompt_tokens:,.0f}", output=f"{w.mean_output_tokens:,.0f}")
    mean = "" if len(w) == 1 else said(lang, "mean")
    come = WORDS[lang].get(type(w.arrivals).__name__, "")
    return ", ".join(part for part in (f"{w.name} {shape}{mean}".strip(), come) if part)


def load_alt(curve: LoadCurve, kind: str, lang: str) -> str:
    """A paragraph that says what a panel shows."""
    name = kind.upper()
    rates, values = _judged(curve, f"{kind}_p95_s")
    first, last = (format_si(float(values[i]), "s") for i in (0, -1))
    low, high = sig(float(rates[0])), sig(float(rates[-1]))
    evidence = words.sentence(words.trust_of(curve.deployment))
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
