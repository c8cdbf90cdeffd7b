"""What a growth figure says: how far apart models are, or where the cache of one outgrows its weights."""

from __future__ import annotations

import numpy as np

from roofline.units import format_bytes
from roofline.views.plot.growth_points import Growth, GrowthLine
from roofline.views.plot.lettering import pick, plain
from roofline.views.plot.speech import Speech
from roofline.views.plot.theme import LangName

__all__ = ["SAY", "growth_alt", "growth_line", "growth_title", "name_of"]

SAY = Speech(
    x=("Context (tokens a sequence)", "上下文（每序列 token）"),
    y=("Cache and state (GiB)", "缓存与状态（GiB）"),
    batch=("batch {n}", "批量 {n}"),
    weights=("weights, {bytes}", "权重 {bytes}"),
    at=("{n}", "{n}"),
    trust=("counted from the models' shapes", "按模型结构计数"),
    alone=("{model} keeps {bytes} of {n} tokens", "{model} 为 {n} token 保存 {bytes}"),
    alone_of=(
        "{batch} sequences of {model} keep {bytes} of {n} tokens each",
        "{batch} 条 {model} 序列各 {n} token，共保存 {bytes}",
    ),
    times=("At {n} tokens {thick} keeps {times} what {thin} does", "{n} token 时 {thick} 的缓存是 {thin} 的 {times}"),
    times_short=("{thick} keeps {times} what {thin} does", "{thick} 的缓存是 {thin} 的 {times}"),
    outgrows=("The cache outgrows the weights at {n} tokens", "缓存到 {n} token 时超过权重"),
    outgrows_of=(
        "At batch {batch} the cache outgrows the weights at {n} tokens",
        "批量 {batch} 时，缓存到 {n} token 就超过权重",
    ),
    one=("one sequence", "一条序列"),
    several=("{n} sequences", "{n} 条序列"),
    line=("{kv} cache and recurrent state of {sequences}{levels}", "{sequences}的 {kv} 缓存与循环状态{levels}"),
    line_of=("{model}, {weights} weights · {line}", "{model}，{weights} 权重 · {line}"),
    levels=(
        "; dotted levels: all memory of a chip, weights not yet in it",
        "；点线：芯片全部内存，权重尚未计入",
    ),
    alt=(
        "Cache and state against context on log axes. {title}. At their longest: {ends}.{against}",
        "缓存与状态随上下文的变化，双对数坐标。{title}。最长处：{ends}。{against}",
    ),
    alt_end=("{name} ({kind}) {bytes} at {n}", "{name}（{kind}）{n} 处 {bytes}"),
    alt_levels=(" Memory levels: {levels}.", "内存：{levels}。"),
    alt_weights=(" Weights: {bytes}.", "权重：{bytes}。"),
)  # fmt: skip


def name_of(line: GrowthLine, shown: Growth, lang: LangName) -> str:
    """What a line is called at its end: its model, or its batch where the model is the same."""
    return SAY(lang, "batch", n=f"{line.batch:,.0f}") if len(shown.batches) > 1 else line.model.id


def growth_title(shown: Growth, lang: LangName) -> str:
    """How far apart the models are at a context all of them have; of one, where its cache outgrows its weights."""
    crossed = [line for line in shown.lines if line.outgrows is not None]
    if crossed:
        line = crossed[-1]
        name = "outgrows" if line.batch == 1.0 else "outgrows_of"
        return pick(SAY(lang, name, n=f"{line.outgrows:,.0f}", batch=f"{line.batch:,.0f}"))
    common = min(float(line.contexts[-1]) for line in shown.lines)
    at = sorted(((_at(line, common), line) for line in shown.lines), key=lambda pair: pair[0])
    (least, thin), (most, thick) = at[0], at[-1]
    if len(shown.batches) > 1 or len(at) == 1 or least <= 0.0:
        said = {"bytes": format_bytes(most), "n": f"{common:,.0f}", "batch": f"{thick.batch:,.0f}"}
        return pick(SAY(lang, "alone_of" if len(shown.batches) > 1 else "alone", model=thick.model.id, **said))
    names = {"thick": thick.model.id, "thin": thin.model.id, "times": f"{most / least:,.0f}x"}
    return pick(SAY(lang, "times", n=f"{common:,.0f}", **names), SAY(lang, "times_short", **names))


def _at(line: GrowthLine, context: float) -> float:
    return float(np.interp(context, line.contexts, line.kept_bytes))


def growth_line(shown: Growth, lang: LangName) -> str:
    """Second line: formats and batch."""
    n = " / ".join(f"{batch:,.0f}" for batch in shown.batches)
    sequences = SAY(lang, "one") if shown.batches == (1.0,) else SAY(lang, "several", n=n)
    line = SAY(lang, "line", kv=shown.kv, sequences=sequences, levels=SAY(lang, "levels") if shown.chips else "")
    if shown.weight_bytes is None:
        return line
    return SAY(lang, "line_of", model=shown.lines[0].model.id, weights=shown.weights, line=line)


def growth_alt(shown: Growth, lang: LangName) -> str:
    """The figure in words."""
    ends = ("；" if lang == "zh" else "; ").join(
        SAY(
            lang, "alt_end", name=name_of(line, shown, lang), kind=line.kind, bytes=format_bytes(float(line.kept_bytes[-1])),
            n=plain(float(line.contexts[-1])),
        )
        for line in shown.lines
    )  # fmt: skip
    levels = ("、" if lang == "zh" else ", ").join(
        f"{chip.id} {format_bytes(chip.memory_bytes)}" for chip in shown.chips
    )
    against = SAY(lang, "alt_levels", levels=levels) if levels else ""
    if shown.weight_bytes is not None:
        against += SAY(lang, "alt_weights", bytes=format_bytes(shown.weight_bytes))
    return SAY(lang, "alt", title=growth_title(shown, lang), ends=ends, against=against)
