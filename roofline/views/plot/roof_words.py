"""What a roofline says: which resource binds, how far from the ridge, and the figure in words."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.units import format_si
from roofline.views.plot.lettering import pick, sig, times
from roofline.views.plot.roof_points import Path, Roof
from roofline.views.plot.speech import Speech
from roofline.views.plot.theme import LangName
from roofline.views.plot.words import (
    Shown,
    apart,
    bound_as,
    common,
    formats,
    memory_word,
    phase,
    request_said,
    sentence,
    swept,
    trust_of,
)

__all__ = ["SAY", "intensity_name", "panel_titles", "roof_alt", "roof_title", "roofs_subject", "roofs_title"]

SAY = Speech(
    x=("Arithmetic intensity (FLOP per byte of {memory} traffic)", "算术强度（FLOP / {memory}字节）"),
    y=("Throughput (TFLOP/s per chip)", "每芯片吞吐（TFLOP/s）"),
    ridge=("ridge {at}", "拐点 {at}"),
    limit=("limit {at} as batch → ∞", "批量 → ∞ 时极限 {at}"),
    asked=("{phase}, {swept} {value}", "{phase}，{swept} {value}"),
    end=("{swept} {value}", "{swept} {value}"),
    share=("{share} % of roof", "屋顶的 {share} %"),
    above=("above the roof:\ncheck dtype, sparsity, FLOP counting", "高于屋顶：\n请检查 dtype、稀疏与 FLOP 计数"),
    spot=("{label}: {said}", "{label}：{said}"),
    achieved=("{engine} {rate}", "{engine} {rate}"),
    head=("{phase} is {bound} on {chip}", "{phase}在 {chip} 上{bound}"),
    numbers=("{head}: {intensity} FLOP/B, ridge {ridge}{by}", "{head}：{intensity} FLOP/B，拐点 {ridge}{by}"),
    below=(" ({times})", "（{times}）"),
    past=(" ({times} past)", "（超出 {times}）"),
    panel=("{who}: {phase} {bound}{by}", "{who}：{phase}{bound}{by}"),
    alike=("{phase} is {bound} on {every} {what}", "{phase}在{every}{what}上{bound}"),
    mixed=("Memory binds on {n} of {all} {what}", "{all} {what}中 {n} 个访存受限"),
    chips=("chips", "种芯片"),
    deployments=("deployments", "种部署"),
    both=("both", "两"),
    all=("all {n}", "全部 {n} "),
    told=("{head}: {intensities} FLOP/B", "{head}：{intensities} FLOP/B"),
    told_ridge=("{told}, ridge {ridges}", "{told}，拐点 {ridges}"),
    span=("{low} to {high}", "{low} 到 {high}"),
    alt=(
        "Roofline of {model} on {n} × {chip}, {formats}; {request}. Log-log, arithmetic intensity against "
        "throughput. The "
        "roof rises with {bandwidth} of {memory} bandwidth to {top} ({dtypes}) and bends at the ridge, {ridge} FLOP/B.",
        "{model} 在 {n} × {chip} 上的屋顶线，{formats}；{request}。双对数坐标，吞吐随算术强度的变化。屋顶以 "
        "{memory} 带宽 {bandwidth} "
        "上升到 {top}（{dtypes}），在拐点 {ridge} FLOP/B 处转平。",
    ),
    alt_path=(
        "{phase} at {swept} {value} is {bound}: {intensity} FLOP/B, {rate}",
        "{phase}在{swept} {value} 时{bound}：{intensity} FLOP/B，{rate}",
    ),
    alt_from=(
        "; from {swept} {first} to {last} it moves from {low} to {high} FLOP/B",
        "；{swept}从 {first} 到 {last} 时从 {low} 移到 {high} FLOP/B",
    ),
    alt_limit=("; no batch at this context passes {at} FLOP/B", "；在此上下文下，任何批量都不超过 {at} FLOP/B"),
    alt_spot=(
        "Measured: {label}, {intensity} FLOP/B at {rate}, {share} % of the roof.",
        "实测：{label}，{intensity} FLOP/B，{rate}，为屋顶的 {share} %。",
    ),
    alt_spots=(
        "{n} points are measured, {above} of them above the roof; half reach {share} % of it or more.",
        "实测 {n} 个点，其中 {above} 个高于屋顶；一半达到屋顶的 {share} % 以上。",
    ),
    alt_ops=(
        "{n} ops of both phases are drawn, the larger the more of their phase they take.",
        "画出两个阶段的 {n} 个算子，越大占其阶段的时间越多。",
    ),
    alt_slope=(
        "From the {name} everything would come at {rate}.",
        "若一切都经由 {name}，带宽为 {rate}。",
    ),
    alt_slope_at=(
        " {phase} makes {intensity} FLOP of each byte from there.",
        "{phase}对其每字节做 {intensity} FLOP。",
    ),
    alt_achieved=(
        "The engine reaches {compute} % of the peak and {memory} % of the bandwidth (dash-dotted).",
        "引擎达到峰值的 {compute} % 与带宽的 {memory} %（点划线）。",
    ),
)  # fmt: skip


def intensity_name(roofs: Sequence[Roof], lang: LangName) -> str:
    """The x axis of a roofline."""
    words = {memory_word(roof.deployment.hardware, lang) for roof in roofs}
    alone = words.pop() if len(words) == 1 else {"en": "memory", "zh": "内存"}[lang]
    return SAY(lang, "x", memory=f"{alone} " if lang == "zh" and alone.isascii() else alone)


def roof_title(roof: Roof, lang: LangName) -> str:
    """The finding: which resource binds the phase that matters, and by how much."""
    path = _lead(roof)
    point, ridge, bound = path.asked, roof.ridge, bound_as(path.asked.bound, lang)
    head = _capital(SAY(lang, "head", phase=phase(path.phase, lang), bound=bound, chip=roof.deployment.hardware.id))
    said = {"head": head, "intensity": sig(point.intensity), "ridge": sig(ridge)}
    by = _by(point.bound, point.intensity, ridge, lang)
    return pick(SAY(lang, "numbers", by=by, **said), SAY(lang, "numbers", by="", **said), head)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lead(roof: Roof) -> Path:
    return roof.path("decode") or roof.paths[0]


def _by(bound: str, intensity: float, ridge: float, lang: LangName) -> str:
    """How far from the ridge, where that is what the bound is about."""
    if bound == "memory" and intensity < ridge:
        return SAY(lang, "below", times=times(ridge / intensity))
    if bound == "compute" and intensity > ridge:
        return SAY(lang, "past", times=times(intensity / ridge))
    return ""


def _all(roofs: Sequence[Roof]) -> list[Shown]:
    return [(roof.deployment, roof.request, roof.short_by_bytes) for roof in roofs]


def panel_titles(roofs: Sequence[Roof], lang: LangName) -> list[str]:
    """The finding of each of several panels: what sets it apart, and what binds."""
    titles = []
    for roof, who in zip(roofs, apart(_all(roofs), lang), strict=True):
        path = _lead(roof)
        by = _by(path.asked.bound, path.asked.intensity, roof.ridge, lang)
        said = {"phase": phase(path.phase, lang), "bound": bound_as(path.asked.bound, lang)}
        titles.append(SAY(lang, "panel", who=who, by=by, **said))
    return titles


def roofs_title(roofs: Sequence[Roof], lang: LangName) -> str:
    """The finding across panels."""
    paths = [_lead(r) for r in roofs]
    bounds, phases = {p.asked.bound for p in paths}, {p.phase for p in paths}
    what = SAY(lang, "chips" if len({r.deployment.hardware.id for r in roofs}) == len(roofs) else "deployments")
    every = SAY(lang, "both") if len(roofs) == 2 else SAY(lang, "all", n=len(roofs))
    if len(bounds) == len(phases) == 1:
        said = {"phase": phase(phases.pop(), lang), "bound": bound_as(bounds.pop(), lang)}
        head = _capital(SAY(lang, "alike", every=every, what=what, **said))
    else:
        n_memory = sum(p.asked.bound == "memory" for p in paths)
        head = SAY(lang, "mixed", n=n_memory, all=len(roofs), what=what)
    intensities, ridges = [p.asked.intensity for p in paths], [r.ridge for r in roofs]
    told = SAY(lang, "told", head=head, intensities=_span(intensities, lang))
    return pick(SAY(lang, "told_ridge", told=told, ridges=_span(ridges, lang)), told, head)


def _span(values: list[float], lang: LangName) -> str:
    low, high = sig(min(values)), sig(max(values))
    return low if low == high else SAY(lang, "span", low=low, high=high)


def roofs_subject(roofs: Sequence[Roof], lang: LangName) -> str:
    """What all panels have in common."""
    return common(_all(roofs), lang)


def roof_alt(roof: Roof, lang: LangName) -> str:
    """A paragraph that says what the figure shows."""
    d, top = roof.deployment, roof.ceilings[0]
    said = [
        SAY(
            lang, "alt", model=d.model.id, n=d.n_chips, chip=d.hardware.id, formats=formats(d, lang),
            request=request_said(roof.request, lang), bandwidth=format_si(roof.bytes_per_s, "B/s"),
            memory=memory_word(d.hardware, lang), top=format_si(top.flops_per_s, "FLOP/s"), dtypes="/".join(top.dtypes),
            ridge=sig(top.ridge),
        )
    ]  # fmt: skip
    said += [_path_alt(path, lang) for path in roof.paths]
    said += _beside_alt(roof, lang) + _measured_alt(roof, lang)
    return ("" if lang == "zh" else " ").join([*said, sentence(trust_of(d, lang=lang))])


def _path_alt(path: Path, lang: LangName) -> str:
    p, first, last, of = path.asked, path.points[0], path.points[-1], swept(path.swept, lang)
    said = SAY(
        lang, "alt_path", phase=_capital(phase(path.phase, lang)), swept=of, value=f"{p.value:.0f}",
        bound=bound_as(p.bound, lang), intensity=sig(p.intensity), rate=format_si(p.flops_per_s, "FLOP/s"),
    )  # fmt: skip
    if first is not last:
        ends = {"first": f"{first.value:.0f}", "last": f"{last.value:.0f}"}
        said += SAY(lang, "alt_from", swept=of, low=sig(first.intensity), high=sig(last.intensity), **ends)
    if path.limit is not None:
        said += SAY(lang, "alt_limit", at=sig(path.limit))
    return said + ("。" if lang == "zh" else ".")


def _beside_alt(roof: Roof, lang: LangName) -> list[str]:
    """What was asked for besides: ops, other memories and links, and what the engine reaches."""
    said = [] if not roof.ops else [SAY(lang, "alt_ops", n=len(roof.ops))]
    if roof.achieved is not None:
        compute = roof.achieved.flops_per_s / roof.ceilings[0].flops_per_s
        memory = roof.achieved.bytes_per_s / roof.bytes_per_s
        said.append(SAY(lang, "alt_achieved", compute=f"{100 * compute:.0f}", memory=f"{100 * memory:.0f}"))
    for slope in roof.slopes:
        at = "".join(
            SAY(lang, "alt_slope_at", phase=_capital(phase(name, lang)), intensity=sig(intensity))
            for name, intensity, _ in slope.points
        )
        said.append(SAY(lang, "alt_slope", name=slope.name, rate=format_si(slope.bytes_per_s, "B/s")) + at)
    return said


def _measured_alt(roof: Roof, lang: LangName) -> list[str]:
    spots = roof.measured
    if spots.is_cloud:
        n, above, half = len(spots), spots.above(roof.at), spots.median_share(roof.at)
        return [SAY(lang, "alt_spots", n=f"{n:,}", above=f"{above:,}", share=f"{100.0 * half:.0f}")]
    return [
        SAY(
            lang, "alt_spot", label=s.label, intensity=sig(s.intensity), rate=format_si(s.flops_per_s, "FLOP/s"),
            share=f"{100.0 * s.flops_per_s / float(roof.at(s.intensity)):.0f}",
        )
        for s in spots.spots
    ]  # fmt: skip
