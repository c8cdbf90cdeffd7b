"""What the breakdown says: which resource binds how much of each phase, and which op takes most."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.units import format_si
from roofline.views.plot.lettering import pick
from roofline.views.plot.ops_points import OpBar, PhaseBars
from roofline.views.plot.speech import Speech
from roofline.views.plot.theme import LangName
from roofline.views.plot.words import SAY as COMMON
from roofline.views.plot.words import phase, sentence, trust_of
from roofline.views.words import percent

__all__ = ["SAY", "beside", "name_of", "ops_alt", "ops_title", "panel_title"]

SAY = Speech(
    x=("Time of all layers ({unit})", "所有层的时间（{unit}）"),
    other=("other ({n})", "其余（{n}）"),
    offload=("another memory", "另一内存"),
    host=("engine, per sequence", "引擎，逐序列"),
    beside=("{bound}, {share}", "{bound}，{share}"),
    tick=("the lesser of both", "两者中较小者"),
    title=("{bound} binds {share} of {phase}", "{phase}的 {share} 受限于{bound}"),
    titles=("{one}, {other}", "{one}；{other}"),
    short_other=("{bound} {share} of {phase}", "{phase}的 {share} 受限于{bound}"),
    panel=("{phase}: {name} takes {share} of {time}", "{phase}：{name} 占 {time} 的 {share}"),
    alt=("{phase} takes {time}, by op: {listed}. {evidence}", "{phase}用时 {time}，按算子：{listed}。{evidence}"),
    alt_op=("{name} {time} ({beside})", "{name} {time}（{beside}）"),
)  # fmt: skip


def name_of(bar: OpBar, lang: LangName) -> str:
    """An op's name is that of the model; what is no op has a name of a language."""
    if not bar.name:
        return SAY(lang, "other", n=bar.n)
    return SAY(lang, bar.name) if bar.name in ("offload", "host") else bar.name


def beside(bar: OpBar, lang: LangName) -> str:
    """What binds it, and its share of the phase; of several together only that."""
    share = percent(bar.share)
    return share if bar.n > 1 else SAY(lang, "beside", bound=COMMON(lang, bar.bound), share=share)


def ops_title(phases: Sequence[PhaseBars], lang: LangName) -> str:
    """What binds most of each phase."""
    said = []
    for i, p in enumerate(phases):
        bound, share = p.binds
        name = COMMON(lang, bound)
        values = {"bound": name if i else name.capitalize(), "share": percent(share), "phase": phase(p.phase, lang)}
        said.append(SAY(lang, "short_other" if i else "title", **values))
    return pick(SAY(lang, "titles", one=said[0], other=said[1]) if len(said) == 2 else said[0], said[-1])


def panel_title(p: PhaseBars, lang: LangName) -> str:
    """The op that takes most of a phase."""
    first = p.bars[0]
    name = phase(p.phase, lang)
    said = {"phase": name[:1].upper() + name[1:], "name": name_of(first, lang), "share": percent(first.share)}
    return pick(SAY(lang, "panel", time=format_si(p.seconds, "s"), **said))


def ops_alt(p: PhaseBars, lang: LangName) -> str:
    """A paragraph that says what one panel shows."""
    listed = ("；" if lang == "zh" else "; ").join(
        SAY(lang, "alt_op", name=name_of(bar, lang), time=format_si(bar.seconds, "s"), beside=beside(bar, lang))
        for bar in p.bars
    )
    name = phase(p.phase, lang)
    return SAY(
        lang, "alt", phase=name[:1].upper() + name[1:], time=format_si(p.seconds, "s"), listed=listed,
        evidence=sentence(trust_of(p.deployment, lang=lang)),
    )  # fmt: skip
