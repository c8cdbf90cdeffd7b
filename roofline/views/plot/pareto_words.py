"""What the Pareto figure says: what the front offers from one end to the other."""

from __future__ import annotations

from roofline.views.plot.lettering import pick, sig
from roofline.views.plot.pareto_points import Front
from roofline.views.plot.speech import Speech
from roofline.views.plot.theme import LangName

__all__ = ["SAY", "pareto_alt", "pareto_line", "pareto_title"]

MOST_LISTED = 40  # of a front; of a longer one its ends

SAY = Speech(
    x=("Speed of a user (tok/s, more is better →)", "单个用户的速度（tok/s，越大越好 →）"),
    y=("Output of a chip (tok/s)", "每芯片输出（tok/s）"),
    front=("front", "前沿"),
    meets=("meets the SLO", "满足 SLO"),
    fails=("fails the SLO", "不满足 SLO"),
    title=(
        "From {y0} tok/s a chip at {x0} a user to {y1} at {x1}",
        "从每用户 {x0} tok/s 时每芯片 {y0}，到 {x1} 时 {y1}",
    ),
    one=("{y0} tok/s a chip at {x0} tok/s a user", "每用户 {x0} tok/s，每芯片 {y0} tok/s"),
    none=("None of {n} meets the SLO", "{n} 个方案都不满足 SLO"),
    row=("≥ {speed}: {y}  {label}", "≥ {speed}：{y}  {label}"),
    nothing=("≥ {speed}: none", "≥ {speed}：无"),
    head=("tok/s a user: a chip", "每用户 tok/s：每芯片"),
    line=(
        "{front} of {n} on the front · failing the SLO: {fails}",
        "{n} 个方案，前沿 {front} 个 · {fails} 个不满足 SLO",
    ),
    left=(" · {n} without a speed left out", " · 略去 {n} 个没有速度的"),
    alt=(
        "Output of a chip against the speed of a user, {n} points, of which failing the SLO: {fails}. {title}. The "
        "front: "
        "{listed}.",
        "每芯片输出随单个用户速度的变化，{n} 个点，其中 {fails} 个不满足 SLO。{title}。前沿：{listed}。",
    ),
)  # fmt: skip


def pareto_title(shown: Front, lang: LangName) -> str:
    """What the front offers from one end to the other."""
    if not shown.front:
        return pick(SAY(lang, "none", n=f"{len(shown.xs):,}"))
    first, last = shown.front[0], shown.front[-1]
    ends = {"y0": sig(first.y), "x0": sig(first.x), "y1": sig(last.y), "x1": sig(last.x)}
    return pick(SAY(lang, "one" if first is last else "title", **ends))


def pareto_line(shown: Front, subject: str, lang: LangName) -> str:
    """Second line: whose points, how many, and how many are not drawn."""
    counts = {"front": len(shown.front), "n": f"{len(shown.xs):,}", "fails": f"{shown.n_fails:,}"}
    left = SAY(lang, "left", n=f"{shown.left_out:,}") if shown.left_out else ""
    return " · ".join(part for part in (subject, SAY(lang, "line", **counts)) if part) + left


def pareto_alt(shown: Front, lang: LangName) -> str:
    """The figure in words."""
    named = shown.front if len(shown.front) <= MOST_LISTED else (shown.front[0], shown.front[-1])
    listed = "; ".join(f"{p.label} {sig(p.x)}, {sig(p.y)}" for p in named) or "–"
    counts = {"n": f"{len(shown.xs):,}", "fails": f"{shown.n_fails:,}"}
    return SAY(lang, "alt", title=pareto_title(shown, lang), listed=listed, **counts)
