"""What all pictures say alike: whose numbers they are, in which formats, what binds, and what stands behind them."""

from __future__ import annotations

from collections.abc import Callable

from roofline.answers.records import evidence_of
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Hardware
from roofline.specs.precision import run_dtype
from roofline.units import format_bytes
from roofline.views.plot.request import Request
from roofline.views.plot.speech import Speech
from roofline.views.plot.theme import LangName
from roofline.views.words import ways

__all__ = [
    "TRUST", "apart", "bound_as", "common", "does_not_fit", "fit", "footer", "formats", "levers", "machinery", "memory_word",
    "phase", "request_said", "sentence", "subject", "swept", "trust_of",
]  # fmt: skip

TRUST = "ideal machine, uncalibrated"

SAY = Speech(
    subject=("{model} on {n} × {chip}", "{model}，{n} × {chip}"),
    both=("{weights} weights and KV", "{weights} 权重与 KV"),
    apart=("{weights} weights, {kv} KV", "{weights} 权重，{kv} KV"),
    computed=(", computed in {dtype}", "，以 {dtype} 计算"),
    offload=("{share} % of the {what} on {to}", "{share} % 的{what}在 {to}"),
    over=("does not fit, {bytes} over", "放不下，超出 {bytes}"),
    request=("prompt {prompt}{levers}{more}, batch {batch}", "提示 {prompt}{levers}{more}，批量 {batch}"),
    output=(", output {n}", "，输出 {n}"),
    context=(", context {n}", "，上下文 {n}"),
    cached=(", {n} cached", "，其中 {n} 已缓存"),
    draft=(", {n} draft", "，{n} 个草稿"),
    drafts=(", {n} drafts", "，{n} 个草稿"),
    bound=("{resource}-bound", "{resource}受限"),
    memory=("memory", "访存"),
    compute=("compute", "计算"),
    link=("link", "通信"),
    overhead=("overhead", "开销"),
    tier=("offload", "卸载"),
    prefill=("prefill", "预填充"),
    decode=("decode", "解码"),
    batch=("batch", "批量"),
    prompt=("prompt", "提示"),
    weights=("weights", "权重"),
    experts=("experts", "专家"),
    kv=("cache", "缓存"),
    memory_word=("memory", "内存"),
    plain=("{n} chip", "{n} 芯片"),
    trust=(TRUST, "理想机器，未校准"),
    none_fits=(
        "Does not fit: {bytes} over for one sequence of {n} tokens",
        "放不下：一条 {n} token 的序列就超出 {bytes}",
    ),
)


def sentence(text: str) -> str:
    """With a capital and a full stop; a Chinese one with its own."""
    return f"{text[:1].upper()}{text[1:]}{'。' if text[-1:] > '⺀' else '.'}"


def trust_of(*deployments: Deployment, lang: LangName = "en") -> str:
    """What stands behind the times of a figure; of measurements in the words of their record."""
    said = dict.fromkeys(
        SAY(lang, "trust") if d.engine.id == "ideal" and d.efficiency is None else evidence_of(d) for d in deployments
    )
    return "; ".join(said)


def footer(trust: str = TRUST) -> str:
    """Version, and what evidence stands behind the figure."""
    from roofline import __version__

    return f"roofline {__version__} · {trust}"


def subject(deployment: Deployment, shape: str, short_by_bytes: float = 0.0, *, lang: LangName = "en") -> str:
    """Model, hardware, formats, shape; and by how much it does not fit."""
    d = deployment
    who = SAY(lang, "subject", model=d.model.id, n=d.n_chips, chip=d.hardware.id)
    parts = (who, formats(d, lang), shape, machinery(d, lang), fit(short_by_bytes, lang))
    return " · ".join(part for part in parts if part)


def machinery(deployment: Deployment, lang: LangName = "en") -> str:
    """The engine, and what is offloaded; nothing of the machine itself."""
    engine, offload = deployment.engine, deployment.offload
    said = [engine.name] if engine.id != "ideal" else []
    if offload is not None:
        share = f"{100 * offload.fraction:.0f}"
        said.append(SAY(lang, "offload", share=share, what=SAY(lang, offload.what), to=offload.to))
    return ", ".join(said)


def fit(short_by_bytes: float, lang: LangName = "en") -> str:
    """Nothing where it fits."""
    return SAY(lang, "over", bytes=format_bytes(short_by_bytes)) if short_by_bytes > 0.0 else ""


def does_not_fit(deployment: Deployment, context: float, lang: LangName) -> str:
    """By how much one sequence overruns the memory."""
    from roofline.answers.memory import memory

    short = memory(deployment, context_tokens=context, batch=1.0).short_by_bytes
    return SAY(lang, "none_fits", bytes=format_bytes(float(short)), n=f"{context:,.0f}")


def formats(deployment: Deployment, lang: LangName = "en") -> str:
    """Formats of weights and cache, and the dtype of the arithmetic where the chip runs another."""
    numerics = deployment.numerics
    weights, kv = numerics.weights_name, numerics.kv.name
    wanted = numerics.compute("q")
    used = run_dtype(wanted, deployment.hardware)
    said = SAY(lang, "computed", dtype=used) if used != wanted else ""
    return SAY(lang, "both" if weights == kv else "apart", weights=weights, kv=kv) + said


def bound_as(bound: str, lang: LangName = "en") -> str:
    """What binds, as a word before a noun; what is offloaded binds through another memory.

    >>> bound_as("memory"), bound_as("tier"), bound_as("memory", "zh")
    ('memory-bound', 'offload-bound', '访存受限')
    """
    return SAY(lang, "bound", resource=SAY(lang, bound))


def phase(name: str, lang: LangName) -> str:
    """Prefill or decode."""
    return SAY(lang, name)


def swept(name: str, lang: LangName) -> str:
    """Batch or prompt."""
    return SAY(lang, name)


def request_said(request: Request, lang: LangName) -> str:
    """A request, for the second line of a figure."""
    r, more = request, ""
    if r.output_tokens is not None:
        more = SAY(lang, "output", n=r.output_tokens)
    elif r.context_tokens is not None:
        more = SAY(lang, "context", n=f"{r.context_tokens:.0f}")
    said = {"prompt": f"{r.prompt_tokens:.0f}", "levers": levers(r, lang), "batch": f"{r.batch:.0f}"}
    return SAY(lang, "request", more=more, **said)


def levers(request: Request, lang: LangName) -> str:
    """What the prefix cache has, and how many drafts."""
    hit = SAY(lang, "cached", n=f"{request.prefix_tokens:.0f}") if request.prefix_tokens else ""
    if request.drafting is None:
        return hit
    n = request.drafting.n_drafts
    return hit + SAY(lang, "drafts" if n != 1 else "draft", n=n)


def memory_word(chip: Hardware, lang: LangName = "en") -> str:
    """What the device memory is called on an axis: HBM where it is HBM."""
    return "HBM" if chip.memory.type.upper().startswith("HBM") else SAY(lang, "memory_word")


Part = Callable[[Deployment, Request, float, LangName], str]
_REQUEST: Part = lambda d, request, short, lang: request_said(request, lang)  # noqa: E731
_PARTS: tuple[Part, ...] = (
    lambda d, request, short, lang: d.hardware.id,
    lambda d, request, short, lang: d.model.id,
    lambda d, request, short, lang: ways(d.plan).strip(" ()"),
    lambda d, request, short, lang: formats(d, lang),
    lambda d, request, short, lang: d.engine.name if d.engine.id != "ideal" else "",
    _REQUEST,
    lambda d, request, short, lang: fit(short, lang),
)
Shown = tuple[Deployment, Request, float]


def apart(shown: list[Shown], lang: LangName) -> list[str]:
    """What sets each of several apart from the others, in the order of a second line."""
    parts = [part for part in _PARTS if len({part(*one, lang) for one in shown}) > 1] or [_PARTS[0]]
    named = [", ".join(filter(None, (part(*one, lang) for part in parts))) for one in shown]
    return [name or SAY(lang, "plain", n=d.n_chips) for name, (d, _, _) in zip(named, shown, strict=True)]


def common(shown: list[Shown], lang: LangName, *, request: bool = True) -> str:
    """What all of several have in common, with their request or without."""
    parts = [part for part in _PARTS if request or part is not _REQUEST]
    alike = [part for part in parts if len({part(*one, lang) for one in shown}) == 1]
    return " · ".join(filter(None, (part(*shown[0], lang) for part in alike)))
