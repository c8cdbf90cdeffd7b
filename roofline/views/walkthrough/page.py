"""The page: figures in their slots, matrices to scale, put into the template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from roofline.answers.memory import memory
from roofline.answers.phases import prefill
from roofline.errors import SpecError, did_you_mean, require
from roofline.specs.deployment import Deployment
from roofline.specs.mixers import Latent
from roofline.views.walkthrough.facts import put_facts
from roofline.views.walkthrough.figures import fill
from roofline.views.walkthrough.phrases import LANGUAGES, TAGS, Phrases, sentences
from roofline.views.walkthrough.roof import Roof
from roofline.views.walkthrough.settings import Settings, settings_of
from roofline.views.walkthrough.shapes import put_shapes
from roofline.views.walkthrough.shown import PARTS, Shown, shown_of
from roofline.views.walkthrough.slots import Slots

__all__ = ["page"]

KEYS = {"n": "n", "b": "b", "c": "ctx", "h": "heads", "k": "kv", "w": "weights", "r": "cache"}
"""What the page's address calls its settings."""

PROMPT = {"en": ["France", "'s", "capital", "is"], "zh": ["法国", "的", "首都", "是"]}
ANSWER = {"en": ["Paris"], "zh": ["巴黎"]}


def page(deployment: Deployment, *, prompt_tokens: Any = 4, batch: Any = 1, lang: str | None = None) -> str:
    """One self-contained HTML page: five steps from prefill to decode to a growing cache, for this model on this chip.

    Parameters
    ----------
    deployment : Deployment
        A decoder of text with attention, on one chip.
    prompt_tokens, batch : int
        Where the sliders begin [token, 1].
    lang : "en" or "zh", optional
        The language it opens in; by default that of the reader's browser.

    Returns
    -------
    str
        HTML without any reference to a network, under 250 kB.

    Notes
    -----
    Assumes the ideal machine. Every figure at every setting is an answer of `prefill`, `decode`, `memory` or `kv_bytes`.

    Examples
    --------
    A prompt of 4 times a matrix of 4096 × 4096 is 2 · 4 · 4096 · 4096 FLOP.

    >>> from roofline.specs.catalog import hardware, model
    >>> html = page(Deployment(model=model("llama-2-7b"), hardware=hardware("h100-sxm-80gb")))
    >>> "134,217,728" in html, "https:" in html
    (True, False)
    """
    require(deployment, Deployment, "walkthrough(deployment)")
    if lang is not None and lang not in LANGUAGES:
        raise SpecError(f'lang: expected "en" or "zh", got {lang!r:.40}{did_you_mean(str(lang), LANGUAGES)}')
    if deployment != Deployment(model=deployment.model, hardware=deployment.hardware, precision=deployment.precision):
        raise SpecError("walkthrough: shows one ideal chip; leave out plan, engine, offload and efficiency")
    s = settings_of(deployment, prompt_tokens=prompt_tokens, batch=batch)
    read = prefill(deployment, prompt_tokens=s.prompts[s.start["n"]])
    shown, roof = shown_of(deployment.model, read), Roof.over(deployment, read)
    slots = Slots({dim: len(stops) for dim, stops in s.stops.items()}, s.start)
    fill(slots, s, shown, roof)
    put_facts(slots, s, shown, roof)
    put_shapes(slots, s, shown)
    phrases = Phrases(slots, "zh" if lang == "zh" else "en")
    html: str = _template().render(**_context(slots, s, shown, roof, phrases), asked=lang is not None)
    return html


def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    here = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return here.get_template("page.html")


def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()


def _context(slots: Slots, s: Settings, shown: Shown, roof: Roof, phrases: Phrases) -> dict[str, Any]:
    """What the template asks for besides sentences and figures."""
    d = s.deployment
    latent = isinstance(shown.mixer, Latent)
    answers = {"stops": s.stops, "keys": KEYS, "start": s.start, "slots": slots.packed()}
    text = json.dumps(answers, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    kept_height = f"{phrases.value('n')}, {shown.d_key * shown.n_kv_heads}"
    return {
        "phrases": phrases, "slots": slots, "now": slots.now, "sizes": slots.sizes, "start": s.start,
        "tag": TAGS[phrases.language], "style": _asset("page.css"), "script": _asset("page.js"), "answers": text,
        "no_room": not memory(d, context_tokens=1).fits, "roof": roof.drawing(), "part_names": PARTS,
        "projections": shown.projections, "shared": shown.shared, "dims": shown.dims, "ffn": shown.ffn,
        "d_in": shown.dims[shown.projections[0]][0], "d_query": shown.d_query, "d_key": shown.d_key,
        "knee": s.knee, "equal": slots.now("equal"), "bends": _bends(d), "over": ("n", "c"),
        "choices": _choices(s, phrases),
        "prompt_words": [(TAGS[x], PROMPT[x]) for x in LANGUAGES], "answer_words": {TAGS[x]: ANSWER[x] for x in LANGUAGES},
        "ridge_words": [(TAGS[x], sentences()["roof.ridge"][x]) for x in LANGUAGES],
        "x_words": [(TAGS[x], sentences()["roof.x"][x]) for x in LANGUAGES],
        "kept_names": ("C",) if latent else ("K", "V"), "kept_dims": _raw(f"({kept_height})"),
        "kept_long": _raw(f'(…, {phrases.value("c")})'),
        "weight": lambda name: _raw(f"W<sub>{name.removesuffix('_proj')}</sub>"),
        "made": lambda name: {"q_proj": "Q", "k_proj": "K", "v_proj": "V"}.get(name, name.removesuffix("_proj")),
        "dims_of": lambda name, cols: _raw(f"({phrases.value(name)}, {cols})"),
        "dims_to": lambda rows, name: _raw(f"({rows}, {phrases.value(name)})"),
        "dims_both": lambda name: _raw(f"({phrases.value(name)}, {phrases.value(name)})"),
    }  # fmt: skip


def _raw(html: str) -> Any:
    from markupsafe import Markup

    return Markup(html)


def _bends(d: Deployment) -> bool:
    """Whether the cache of a long context is less than in proportion to that of a short one."""
    short, long = (float(memory(d, context_tokens=n).used_bytes) for n in (1, 1_000_001))
    return long - short < 0.999 * 1e6 * memory(d, context_tokens=1).kv_bytes_per_token


def _choices(s: Settings, phrases: Phrases) -> dict[str, list[str]]:
    """What stands on the buttons of each choice."""
    heads = ["MLA" if x.n_heads == 0 else f"{x.n_heads}" for x in s.caches]
    heads = [x if cache.own else f"{phrases.say('h.as')} {x}" for x, cache in zip(heads, s.caches, strict=True)]
    return {
        "h": heads,
        "k": [x.name for x in s.kv],
        "w": [x.name for x in s.weights],
        "r": [phrases.say("set.with"), phrases.say("set.without")],
    }
