"""What a memory figure says: whether it fits, and what is left or lacking."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.units import format_bytes
from roofline.views.plot.lettering import pick
from roofline.views.plot.memory_points import Stack
from roofline.views.plot.speech import Speech
from roofline.views.plot.theme import LangName
from roofline.views.plot.words import Shown, apart, common, subject

__all__ = ["SAY", "bar_names", "memory_alt", "memory_line", "memory_title", "verdict"]

SAY = Speech(
    x=("Memory of the fullest chip (GiB)", "最满芯片的内存（GiB）"),
    weights=("weights", "权重"),
    draft=("draft model, adapters", "草稿模型、适配器"),
    kv=("KV cache", "KV 缓存"),
    kv_state=("KV cache and state", "KV 缓存与状态"),
    activations=("activations", "激活"),
    runtime=("engine: context, graphs", "引擎：上下文、图"),
    free=("free", "空闲"),
    over=("over", "超出"),
    budget=("engine's budget", "引擎预算"),
    device=("device", "设备"),
    left=("{bytes} free", "空闲 {bytes}"),
    lacks=("{bytes} over", "超出 {bytes}"),
    trust=("counted as the engine allocates", "按引擎的分配计数"),
    fits=("Fits: {bytes} free of {all}", "放得下：{all} 中空闲 {bytes}"),
    fits_not=("Does not fit: {bytes} over", "放不下：超出 {bytes}"),
    fit_all=("All {n} fit; {who} has least left, {bytes}", "{n} 个都放得下；{who} 剩余最少，{bytes}"),
    fit_all_short=("All {n} fit", "{n} 个都放得下"),
    fit_none=("None of {n} fits; {who} lacks least, {bytes}", "{n} 个都放不下；{who} 差得最少，{bytes}"),
    fit_none_short=("None of {n} fits", "{n} 个都放不下"),
    fit_some=("{fits} of {n} fit: {who}", "{n} 个中 {fits} 个放得下：{who}"),
    fit_some_short=("{fits} of {n} fit", "{n} 个中 {fits} 个放得下"),
    shape=("{n} × {context} tokens", "{n} × {context} token"),
    alt=(
        "Memory of one chip as stacked bars. {title}. {bars}",
        "一个芯片的内存，堆叠条形。{title}。{bars}",
    ),
    alt_bar=(
        "{name}: {pieces}; {verdict}, the engine may use {usable} of {capacity}.",
        "{name}：{pieces}；{verdict}，引擎可用 {capacity} 中的 {usable}。",
    ),
)  # fmt: skip


def _all(stacks: Sequence[Stack]) -> list[Shown]:
    return [(s.deployment, s.request, 0.0) for s in stacks]


def bar_names(stacks: Sequence[Stack], lang: LangName) -> list[str]:
    """What sets each bar apart; of one, its chip."""
    return apart(_all(stacks), lang)


def verdict(stack: Stack, lang: LangName) -> str:
    """What is left, or lacking."""
    if stack.fits:
        return SAY(lang, "left", bytes=format_bytes(stack.free_bytes))
    return SAY(lang, "lacks", bytes=format_bytes(stack.short_by_bytes))


def memory_title(stacks: Sequence[Stack], lang: LangName) -> str:
    """Whether it fits, and by how much."""
    if len(stacks) == 1:
        (s,) = stacks
        if s.fits:
            return SAY(lang, "fits", bytes=format_bytes(s.free_bytes), all=format_bytes(s.usable_bytes))
        return SAY(lang, "fits_not", bytes=format_bytes(s.short_by_bytes))
    names = bar_names(stacks, lang)
    n, able = len(stacks), [name for name, s in zip(names, stacks, strict=True) if s.fits]
    if 0 < len(able) < n:
        who = "; ".join(able)
        return pick(*(SAY(lang, name, fits=len(able), n=n, who=who) for name in ("fit_some", "fit_some_short")))
    sizes = [s.free_bytes if s.fits else s.short_by_bytes for s in stacks]
    least = sizes.index(min(sizes))
    kind = "fit_all" if able else "fit_none"
    said = {"n": n, "who": names[least], "bytes": format_bytes(sizes[least])}
    return pick(*(SAY(lang, name, **said) for name in (kind, f"{kind}_short")))


def memory_line(stacks: Sequence[Stack], lang: LangName) -> str:
    """What all bars have in common, and how many tokens they hold."""
    s = stacks[0]
    alike = len({(x.context, x.request.batch) for x in stacks}) == 1
    shape = SAY(lang, "shape", n=f"{s.request.batch:,.0f}", context=f"{s.context:,.0f}") if alike else ""
    if len(stacks) == 1:
        return subject(s.deployment, shape, lang=lang)
    return " · ".join(part for part in (common(_all(stacks), lang, request=False), shape) if part)


def memory_alt(stacks: Sequence[Stack], lang: LangName) -> str:
    """The figure in words."""
    bars = [
        SAY(
            lang, "alt_bar", name=name, verdict=verdict(s, lang), usable=format_bytes(s.usable_bytes),
            capacity=format_bytes(s.capacity_bytes),
            pieces=", ".join(f"{SAY(lang, piece)} {format_bytes(size)}" for piece, size in s.pieces.items()),
        )
        for name, s in zip(bar_names(stacks, lang), stacks, strict=True)
    ]  # fmt: skip
    return SAY(lang, "alt", title=memory_title(stacks, lang), bars=("" if lang == "zh" else " ").join(bars))
