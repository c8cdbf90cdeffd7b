"""The page: figures in their slots, matrices to scale, put into the template."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from roofline.answers.memory import memory
from roofline.answers.phases import prefill
from roofline.errors import SpecError, did_you_mean, require
from roofline.specs.deployment import Deployment
from roofline.specs.mixers import Attention, Latent
from roofline.views.walkthrough.facts import experts_of, put_facts
from roofline.views.walkthrough.figures import fill, later_bytes
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


@lru_cache(maxsize=1)
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
    from markupsafe import Markup

    d, at_rest = s.deployment, memory(s.deployment, context_tokens=1)
    answers = {"stops": s.stops, "keys": KEYS, "start": s.start, "slots": slots.packed()}
    text = json.dumps(answers, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")

    def shape(rows: str, cols: str) -> Any:
        """A matrix's sides, of which a setting may move either."""
        return Markup(f"({phrases.value(rows)}, {phrases.value(cols)})")

    return {
        "phrases": phrases, "slots": slots, "now": slots.now, "sizes": slots.sizes, "start": s.start, "shape": shape,
        "tag": TAGS[phrases.language], "style": _asset("page.css"), "script": _asset("page.js"), "answers": text,
        "no_room": not at_rest.fits, "roof": roof.drawing(), "languages": TAGS.items(), "sentences": sentences(),
        "part_names": [part for part in PARTS if f"s2.{part}.bytes" in slots.texts],
        "projections": shown.projections, "shared": shown.shared, "ffn": shown.ffn,
        "expert": (shown.ffn or "").startswith("expert_"),
        "experts": experts_of(d.model) is not None, "state": at_rest.state_bytes > 0,
        "alike": shown.repeat == d.model.n_layers, "latent": isinstance(shown.mixer, Latent),
        "keys": isinstance(shown.mixer, Attention) and shown.mixer.values == "keys",
        "bends": later_bytes(d) < at_rest.kv_bytes_per_token,
        "knee": s.knee, "equal": slots.now("equal"), "endless": slots.now("s5.equal") == "–", "over": ("n", "c"),
        "choices": _choices(s, phrases), "prompt": PROMPT, "answer": ANSWER,
        "kept": shown.kept(0), "made": _made(shown),
        "weight": lambda name: Markup(f"W<sub>{name.removesuffix('_proj')}</sub>"),
    }  # fmt: skip


def _made(shown: Shown) -> dict[str, str]:
    """What each projection makes."""
    made = {name: name.removesuffix("_proj") for name in shown.projections}
    gated = isinstance(shown.mixer, Attention) and shown.mixer.gated is True
    return made | {"q_proj": "Q, gate" if gated else "Q", "k_proj": "K", "v_proj": "V"}


def _choices(s: Settings, phrases: Phrases) -> dict[str, list[str]]:
    """What stands on the buttons of each choice."""
    return {
        "h": [cache.name if cache.own else f"{phrases.say('h.as')} {cache.name}" for cache in s.caches],
        "k": [x.name for x in s.kv],
        "w": [x.name for x in s.weights],
        "r": [phrases.say("set.with"), phrases.say("set.without")],
    }
