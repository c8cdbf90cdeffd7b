"""`roofline models`: the models of the catalogue, and any one of them or of a file, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from roofline.answers.caches import state_bytes
from roofline.answers.inputs import IMAGE_SIZE
from roofline.errors import SpecError
from roofline.specs import catalog
from roofline.specs.ffns import Dense, Moe
from roofline.specs.layers import Layer
from roofline.specs.mixers import Attention, Compressed, CrossAttention, Latent
from roofline.specs.model import Model
from roofline.specs.precision import Precision
from roofline.units import format_bytes
from roofline.views.cli.catalogue import readable
from roofline.views.cli.common import Json, Search, print_json, print_table, say, table
from roofline.work.kvcache import cache_bytes, token_bytes

__all__ = ["ffn_words", "mixer_words", "models"]


def models(
    name: Annotated[
        str | None, typer.Argument(help="A model to show, or a file; without one, all are listed.", show_default=False)
    ] = None,
    more: Annotated[str | None, typer.Argument(hidden=True)] = None,
    yaml: Annotated[bool, typer.Option("--yaml", help="Write the model out as YAML, to keep or to change.")] = False,
    families: Annotated[
        bool, typer.Option("--families", help="List the model types that are read from a file.")
    ] = False,
    json: Json = False,
    search: Search = None,
) -> None:
    """List the models, or show one's layers and parameters.

    NAME may be a catalogue name, or a path: YAML, config.json, its folder, or .gguf. "models show NAME" says the same.
    """
    if families:
        from roofline.specs.huggingface.families import FAMILIES

        say("\n".join(sorted(FAMILIES)))
        return
    asked = more if name == "show" else name
    if more is not None and name != "show":
        raise SpecError(f"models: expected one name, got {name!r} and {more!r}")
    if name == "show" and more is None:
        raise SpecError("models show: expected a model to show, by name or path")
    if asked is None:
        _list(json=json, search=search)
        return
    spec = catalog.model(asked, search=search or ())
    if yaml:
        say(catalog.model_yaml(spec).rstrip())
    elif json:
        print_json("model", {"model": spec.model_dump(mode="json")} | _figures(spec))
    else:
        _show(spec)


def _figures(s: Model) -> dict[str, object]:
    return {
        "id": s.id, "name": s.name, "n_params": s.n_params, "n_active_params": s.n_active_params,
        "n_mtp_params": s.n_mtp_params, "n_layers": s.n_layers, "max_context_tokens": s.max_context_tokens,
    }  # fmt: skip


def _list(*, json: bool, search: Search) -> None:
    specs = list(readable(catalog.model_ids(search=search or ()), partial(catalog.model, search=search or ())))
    if json:
        print_json("model-list", {"models": [_figures(s) for s in specs]})
        return
    rows = table("parameters", "active", "layers", "width", "<mixers", "<FFN", "max context", "<dtype", first="model")
    for s in specs:
        kinds = s.layer_kinds()
        active = f"{s.n_active_params:,}" if s.n_active_params != s.n_params else "–"
        rows.add_row(
            s.id, f"{s.n_params:,}", active, str(s.n_layers), f"{s.d_model:,}", _together(kinds, mixer_words),
            _together(kinds, ffn_words), f"{s.max_context_tokens:,}", s.dtype,
        )  # fmt: skip
    print_table(rows, spare=("dtype", "width", "layers", "FFN", "max context", "mixers", "active"))
    say(f"\n{len(specs)} models. roofline models NAME shows one; a path to a config.json or .gguf does as well.")


def _together(kinds: tuple[tuple[int, Layer], ...], words: Callable[[Layer], str]) -> str:
    """What the layers of a model are made of, each kind once with how many have it."""
    many: dict[str, int] = {}
    for n, layer in kinds:
        word = words(layer)
        if word:
            many[word] = many.get(word, 0) + n
    return ", ".join(many) if len(many) == 1 else " + ".join(f"{n} × {word}" for word, n in many.items())


def mixer_words(layer: Layer) -> str:
    """A layer's mixer for people: "GQA 32/8 × 128, window 4,096"."""
    words = [_one_mixer(mixer) for mixer in layer.mixers]
    if layer.cross is not None:
        words.append(f"cross-attention {_heads(layer.cross)}")
    return " + ".join(words)


def _one_mixer(mixer: object) -> str:
    match mixer:
        case Attention() as x:
            where = "" if x.window is None else f", {'chunks of' if x.chunked else 'window'} {x.window:,}"
            how = {"own": "", "keys": ", K = V", "earlier": ", an earlier layer's cache"}[x.values]
            picks = "" if x.indexer is None else f", top {x.indexer.top_k:,}"
            return f"{_heads(x)}{where}{how}{picks}{'' if x.causal else ', both ways'}"
        case Latent() as x:
            picks = "" if x.indexer is None else f", top {x.indexer.top_k:,}"
            return f"MLA {x.n_heads} heads, {x.d_latent} + {x.d_rope} cached{picks}"
        case Compressed() as x:
            thin = "" if x.ratio is None else f" + 1 entry in {x.ratio}"
            picks = "" if x.indexer is None else f", top {x.indexer.top_k:,}"
            return f"MQA {x.n_heads}/1 × {x.d_head}, window {x.window:,}{thin}{picks}"
        case _:
            state = getattr(mixer, "state_elements", 0)
            kind = str(getattr(mixer, "kind", "")).replace("_", " ")
            return f"{kind}, state {state:,}" if state else kind


def _heads(x: Attention | CrossAttention) -> str:
    kind = "MHA" if x.n_heads == x.n_kv_heads else "MQA" if x.n_kv_heads == 1 else "GQA"
    return f"{kind} {x.n_heads}/{x.n_kv_heads} × {x.d_head}"


def ffn_words(layer: Layer) -> str:
    """A layer's FFN for people: "8 experts of 14,336, 2 active"."""
    match layer.ffn:
        case None:
            return ""
        case Dense() as x:
            return f"{'gated' if x.gated else 'plain'} {x.d_ff:,}"
        case Moe() as x:
            shared = "" if x.d_shared is None else f" + shared {x.d_shared:,}"
            return f"{x.n_experts} experts of {x.d_ff:,}, {x.n_active_experts} active{shared}"
        case _:
            return layer.ffn.kind


def _show(s: Model) -> None:
    say(f"{s.name}   ({', '.join([s.id, *s.aliases])})")
    active = "" if s.n_active_params == s.n_params else f", {s.n_active_params:,} active"
    shape = f"{s.n_layers} layers, width {s.d_model:,}, vocabulary {s.vocab_size:,}, {s.dtype}"
    say(f"{s.n_params:,} parameters{active}, {shape}")
    say()
    rows = table("×", "<mixer", "<FFN", "parameters", first="layer")
    for index, (repeat, layer) in enumerate(s.layer_kinds()):
        parallel = ", parallel" if layer.parallel else ""
        n_params = sum(x.n_params for x in layer.matrices(s.d_model)) + layer.n_vector_params(s.d_model, s.norm)
        mixer, ffn = mixer_words(layer) or "–", ffn_words(layer) or "–"
        rows.add_row(str(index), str(repeat), mixer, f"{ffn}{parallel}", f"{n_params:,}")
    print_table(rows)
    say()
    for line in _lines(s):
        say(line)


def _lines(s: Model) -> list[str]:
    """What is not in a layer: towers, tables, head, further predictions, formats; and what was assumed."""
    lines = []
    for t in s.towers:
        feeds = "stand in the prompt" if t.feeds == "prompt" else "are cross-attended to"
        lines.append(
            f"{t.kind} tower: {t.n_params:,} parameters, {t.n_layers} layers of width {t.d_model:,}; outputs {feeds}"
        )
        if t.image is not None:
            one = t.image.of(height=IMAGE_SIZE[0], width=IMAGE_SIZE[1])
            given = (
                f"{one.prompt_tokens:,} in the prompt" if t.feeds == "prompt" else f"{one.memory_tokens:,} attended to"
            )
            size = f"{IMAGE_SIZE[0]:,} × {IMAGE_SIZE[1]:,}"
            lines.append(f"an image of {size} is {one.n_units * one.tower_tokens:,} tokens of the tower, {given}")
    tables = [s.embedding_matrix, *s.side_matrices[:1]]
    lines.append(", ".join(f"{m.role.replace('_', ' ')} {m.n_params:,} parameters" for m in tables))
    head = "none (an encoder)" if s.head is None else "tied to the embedding" if s.head.tied else "its own"
    lines.append(f"head {head}; positions {s.positions.kind}; context up to {s.max_context_tokens:,}")
    if s.n_mtp_params:
        lines.append(f"multi-token prediction: {s.n_mtp_params:,} parameters besides")
    lines.extend(_stored(s))
    lines.extend(_kept(s))
    lines.append(f"source: {s.source}" if s.source else "no source given")
    lines.extend(f"assumed: {line}" for line in s.assumed)
    return [*lines, s.notes] if s.notes else lines


def _stored(s: Model) -> list[str]:
    """Number formats, each with the matrices it is for; of single kinds of layers where they differ."""
    said = [f"stored as {_by_format(s.formats)}"] if s.formats else []
    for index, (_, layer) in enumerate(s.layer_kinds()):
        if layer.formats:
            said.append(f"layers {index} stored as {_by_format(layer.formats)}")
    return said


def _by_format(formats: dict[str, str]) -> str:
    roles: dict[str, list[str]] = {}
    for role, name in formats.items():
        roles.setdefault(name, []).append("all that its recipe quantises" if role == "*" else role)
    return "; ".join(f"{name} ({', '.join(of)})" for name, of in roles.items())


def _kept(s: Model) -> list[str]:
    """What a sequence keeps: cache at its first token and state, where there are any."""
    if not s.generates:
        return ["cache none"]
    bf16 = Precision(kv="bf16").of(s)
    each, state = token_bytes(s, numerics=bf16), float(state_bytes(s))
    crossed = float(cache_bytes(s, context_tokens=0.0, n_seq=1.0, numerics=bf16, memory_tokens=1.0))
    while_open = ", while no window is full" if s.windows else ""
    kept = [f"cache {format_bytes(each, digits=5)} a token in bf16{while_open}"] if each else []
    kept += [f"cross-attention's cache {format_bytes(crossed, digits=5)} a tower output in bf16"] if crossed else []
    return kept + ([f"recurrent state {format_bytes(state, digits=5)} a sequence"] if state else [])
