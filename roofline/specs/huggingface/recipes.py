"""What a quantisation config says, in one form whoever wrote it: AutoAWQ, AutoGPTQ, bitsandbytes, ModelOpt, MLX, …

References: transformers' `quantization_config`; the configs ModelOpt, llm-compressor and mlx-lm write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from roofline.dtypes import format_named
from roofline.errors import UnknownName, Unsupported, did_you_mean, shorten
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.modules import UNTOUCHED, Patterns

__all__ = ["Recipe", "cache_format", "recipe_of"]

EXPERTS = frozenset({"expert_gate", "expert_up", "expert_down"})


@dataclass(frozen=True, slots=True)
class Recipe:
    """The format of linear layers, what is excepted from it, and the format of the KV cache.

    `ignored` comes first, then `rules`, `fixed` formats of roles, and at last `format`, for what the format itself does not
    keep in 16 bit. `only`: nothing but the modules it picks; `roles`: nothing but those. `towers`: linear layers of
    encoders too, unless ignored.
    """

    format: str | None
    ignored: Patterns
    rules: Patterns
    only: Patterns | None = None
    roles: frozenset[str] | None = None
    fixed: Mapping[str, str] = field(default_factory=dict)
    kv: str | None = None
    towers: bool = False

    def of(self, role: str, names: Sequence[str]) -> str | None:
        """The format of the matrix of a role whose modules have these names; none where it stays in 16 bit."""
        for patterns in (self.ignored, self.rules):
            found = patterns.find(names)
            if found is not None:
                return found or None
        if role in self.fixed:
            return self.fixed[role]
        if self.format is None or role in format_named(self.format).kept_16bit:
            return None
        if self.roles is not None and role not in self.roles:
            return None
        return self.format if self.only is None or self.only.find(names) is not None else None


def recipe_of(c: Config, top: Config) -> Recipe:
    """The recipe of a `quantization_config`, by its `quant_method` or, where that is missing, by its keys."""
    method = str(c.word("quant_method")).lower() if c.given("quant_method") else _method_by_keys(c)
    read = _METHODS.get(method)
    if read is None:
        near = did_you_mean(method, _METHODS)
        raise Unsupported(
            f'{c.place("quant_method")}: "{shorten(method)}" is not read{near} (known: {", ".join(_METHODS)}); '
            "take the section out, and say what the weights are in with weights="
        )
    return read(c, top)


def _method_by_keys(c: Config) -> str:
    if c.has("quant_algo") or c.has("quantization"):
        return "modelopt"
    if c.has("config_groups"):
        return "compressed-tensors"
    if c.has("load_in_4bit") or c.has("load_in_8bit"):
        return "bitsandbytes"
    if c.has("desc_act") or c.has("damp_percent"):
        return "gptq"
    if c.has("zero_point"):
        return "awq"
    if c.has("bits") and c.has("group_size"):
        return "mlx"
    raise c.wrong("quant_method", f"one of {', '.join(_METHODS)}", c.data.get("quant_method"))


def _left(c: Config, *keys: str) -> Patterns:
    """The modules a list names under the first of the keys that is there: they stay in 16 bit."""
    return Patterns(((name, UNTOUCHED) for name in _names(c, *keys)), where=c.place(keys[0]))


def _names(c: Config, *keys: str) -> list[str]:
    given = [key for key in keys if c.given(key)]
    return [name for key in given[:1] for name in c.items(key, kind=str)]


def _named(name: str, c: Config, key: str) -> str:
    """The format of a made-up name, as the table calls it."""
    try:
        return format_named(name).name
    except UnknownName:
        raise Unsupported(f"{c.place(key)}: {name} is no format this version knows") from None


def _grouped(kind: str, c: Config, *, n_bits: int, group: int, key: str = "bits") -> str:
    """`kind`-Nbit-gG, or with a scale a channel where the group is all of it (-1)."""
    return _named(f"gptq-{n_bits}bit-channel" if group < 1 else f"{kind}-{n_bits}bit-g{group}", c, key)


def _bits(c: Config, *keys: str) -> int:
    return int(c.whole(*(keys or ("bits",)), least=1, most=16))


def _group(c: Config, *keys: str) -> int:
    return int(c.whole(*(keys or ("group_size",)), least=-1, most=65_536))


def _fp8(c: Config, top: Config) -> Recipe:
    """FP8, with a scale a tensor, a channel, or (`weight_block_size`) a block; DeepSeek-V4's experts in their own."""
    name = _block_of(c, "weight_block_size") if c.given("weight_block_size") else "fp8"
    left = ["modules_to_not_convert", "ignored_layers"]
    if not c.given("moe_quant_algo"):  # else `ignore` says what that algorithm leaves in FP8
        left.append("ignore")
    return Recipe(name, _left(c, *left), _none(c), fixed=_of_experts(c, top), towers=True)


def _of_experts(c: Config, top: Config) -> Mapping[str, str]:
    """The experts' own format: as ModelOpt converted them (`moe_quant_algo`), or MXFP4 as released (`expert_dtype`)."""
    if c.given("moe_quant_algo"):
        name = _modelopt_format(c, "moe_quant_algo")
        return dict.fromkeys(EXPERTS, name) if name else {}
    for at in (c, top):
        if at.given("expert_dtype"):
            return dict.fromkeys(EXPERTS, "mxfp4") if at.word("expert_dtype", among=("fp4", "fp8")) == "fp4" else {}
    return {}


def _block_of(c: Config, key: str) -> str:
    rows, columns = c.items(key, kind=int, length=2)
    if not (1 <= rows <= 65_536 and 1 <= columns <= 65_536):
        raise c.wrong(key, "two whole numbers from 1 to 65,536", c.data[key])
    return _named(f"fp8-block-{rows}x{columns}", c, key)


def _none(c: Config) -> Patterns:
    return Patterns(where=c.where)


def _awq(c: Config, top: Config) -> Recipe:
    """AWQ: groups with a scale and a zero point."""
    name = _grouped("awq", c, n_bits=_bits(c, "bits", "w_bit"), group=_group(c, "group_size", "q_group_size"))
    return Recipe(name, _left(c, "modules_to_not_convert"), _none(c))


def _gptq(c: Config, top: Config) -> Recipe:
    """GPTQ: groups with a scale and a zero point, stored even where `sym`; `dynamic` gives modules bits of their own."""
    n_bits, group = _bits(c), _group(c)
    name = _grouped("gptq", c, n_bits=n_bits, group=group)
    rules = list(_gptq_dynamic(c, n_bits, group)) + list(_gptq_extra(c, n_bits, group))
    if c.given("lm_head") and c.flag("lm_head"):
        rules.append(("lm_head", name))
    blocks = c.data.get("modules_in_block_to_quantize") or []
    inside = [(m, name) for block in blocks if isinstance(block, list) for m in block if isinstance(m, str)]
    only = Patterns(inside, where=c.place("modules_in_block_to_quantize")) if inside else None
    left = _left(c, "modules_to_not_convert", "modules_not_quantized")
    return Recipe(name, left, Patterns(rules, where=c.place("dynamic")), only=only)


def _gptq_dynamic(c: Config, n_bits: int, group: int) -> Iterator[tuple[str, str]]:
    """ "-:pattern" leaves modules alone, "+:pattern" or a bare one gives them other bits."""
    if not c.given("dynamic"):
        return
    dynamic = c.section("dynamic")
    for pattern in dynamic.data:
        bare = "re:" + pattern.removeprefix("+:").removeprefix("-:")
        if pattern.startswith("-:"):
            yield bare, UNTOUCHED
            continue
        own = dynamic.section(pattern)
        yield bare, _own_bits(own, n_bits, group)


def _gptq_extra(c: Config, n_bits: int, group: int) -> Iterator[tuple[str, str]]:
    """AutoRound's `extra_config`: modules by name, 16 bits where they are left alone."""
    if c.given("extra_config"):
        extra = c.section("extra_config")
        for module in extra.data:
            yield module, _own_bits(extra.section(module), n_bits, group)


def _own_bits(own: Config, n_bits: int, group: int) -> str:
    bits = _bits(own) if own.given("bits") else n_bits
    return UNTOUCHED if bits == 16 else _grouped(
        "gptq", own, n_bits=bits, group=_group(own) if own.given("group_size") else group
    )  # fmt: skip


def _bitsandbytes(c: Config, top: Config) -> Recipe:
    """bitsandbytes: 8 bit computed in int8, or 4 bit (nf4 or fp4, alike in size) in blocks of 64."""
    four = any(c.given(k) and c.flag(k) for k in ("load_in_4bit", "_load_in_4bit"))
    eight = any(c.given(k) and c.flag(k) for k in ("load_in_8bit", "_load_in_8bit"))
    if four == eight:
        raise c.wrong("load_in_4bit", "true here or in load_in_8bit, and not in both", c.data.get("load_in_4bit"))
    double = c.given("bnb_4bit_use_double_quant") and c.flag("bnb_4bit_use_double_quant")
    name = ("nf4-dq" if double else "nf4") if four else "w8a8"
    return Recipe(name, _left(c, "llm_int8_skip_modules"), _none(c), towers=True)


def _hqq(c: Config, top: Config) -> Recipe:
    """HQQ: groups with a scale and a zero point of 16 bits each."""
    inner = c.section("quant_config").section("weight_quant_params")
    name = _grouped("hqq", inner, n_bits=_bits(inner, "nbits"), group=_group(inner), key="nbits")
    return Recipe(name, _left(c, "skip_modules"), _none(c))


def _eetq(c: Config, top: Config) -> Recipe:
    """EETQ: int8 weights, a scale a channel."""
    return Recipe("int8", _left(c, "modules_to_not_convert"), _none(c))


def _mxfp4(c: Config, top: Config) -> Recipe:
    """MXFP4 as gpt-oss has it: the experts, and nothing else."""
    return Recipe("mxfp4", _left(c, "modules_to_not_convert"), _none(c), roles=EXPERTS)


def _mlx(c: Config, top: Config) -> Recipe:
    """MLX: groups with a scale and a bias of 16 bits; tables and routers too, modules by name in bits of their own."""
    name = _mlx_format(c)
    rules = []
    for module, own in c.data.items():
        if isinstance(own, bool):
            rules.append((module, name if own else UNTOUCHED))
        elif isinstance(own, dict):
            rules.append((module, _mlx_format(c.section(module), default=c)))
    return Recipe(name, _none(c), Patterns(rules, where=c.where))


def _mlx_format(c: Config, default: Config | None = None) -> str:
    mode_at, bits_at, group_at = (
        c if default is None or c.given(key) else default for key in ("mode", "bits", "group_size")
    )
    mode = mode_at.word("mode", among=("affine", "mxfp4", "mxfp8", "nvfp4")) if mode_at.given("mode") else "affine"
    if mode != "affine":
        return "nvfp4-w4a16" if mode == "nvfp4" else str(mode)
    n_bits, group = _bits(bits_at), _group(group_at)
    return _named(f"mlx-{n_bits}bit" + ("" if group == 64 else f"-g{group}"), c, "bits")


_MODELOPT: Mapping[str, str] = {
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "FP8_PB_WO": "fp8-block", "FP8_PB_REAL_QUANT": "fp8-block",
    "FP8_BLOCK_SCALES": "fp8-block", "MXFP8": "mxfp8", "MXFP4": "mxfp4", "W4A8_MXFP4_FP8": "mxfp4",
    "W4A16_MXFP4": "mxfp4", "W4A8_MXFP4_MXFP8": "mxfp4", "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4",
    "W4A8_NVFP4_FP8": "nvfp4", "W4A16_NVFP4": "nvfp4-w4a16", "W8A16": "int8", "W4A16": "int4", "INT8": "w8a8",
    "W8A8_SQ_PER_CHANNEL": "w8a8", "W4A16_AWQ": "int4-g128", "INT4_AWQ": "int4-g128", "W4A8_AWQ": "int4-g128",
    "UNQUANTIZED": UNTOUCHED,
}  # fmt: skip


def _modelopt(c: Config, top: Config) -> Recipe:
    """ModelOpt: one `quant_algo` for all but the modules excluded, or MIXED_PRECISION with an algorithm a module."""
    c = c.section("quantization") if c.given("quantization") else c
    left = _left(c, "exclude_modules", "ignore")
    algo = str(c.word("quant_algo")).upper() if c.given("quant_algo") else None
    if algo == "MIXED_PRECISION":
        by_module = c.section("quantized_layers")
        rules = [(module, _modelopt_format(by_module.section(module))) for module in by_module.data]
        return Recipe(None, left, Patterns(rules, where=c.place("quantized_layers")), kv=_kv(c))
    if algo is None and c.given("config_groups"):
        return _compressed(c, top)
    name = None if algo is None else _modelopt_format(c) or None
    return Recipe(name, left, _none(c), kv=_kv(c), towers=True)


def _modelopt_format(c: Config, key: str = "quant_algo") -> str:
    algo = str(c.word(key)).upper()
    if algo not in _MODELOPT:
        near = did_you_mean(algo, _MODELOPT)
        raise Unsupported(f'{c.place(key)}: "{shorten(algo)}" is not read{near}')
    name = _MODELOPT[algo]
    if name == "int4-g128" and c.given("group_size"):
        return _named(f"int4-g{_group(c)}", c, "group_size")
    return name


def cache_format(c: Config) -> str | None:
    """What a `hf_quant_config.json` keeps the KV cache in, which the config itself may not repeat."""
    return _kv(c.section("quantization") if c.given("quantization") else c)


def _kv(c: Config) -> str | None:
    """The format of the KV cache: `kv_cache_quant_algo` by name, or `kv_cache_scheme` by bits and type."""
    for key in ("kv_cache_quant_algo", "kv_cache_scheme"):
        if not c.given(key):
            continue
        if isinstance(c.data[key], str):
            known = {"fp8": "fp8", "int8": "int8", "nvfp4": "nvfp4", "none": None, "": None}
            return known[str(c.word(key)).lower()] if str(c.data[key]).lower() in known else _unknown_kv(c, key)
        scheme = c.section(key)
        kind = (scheme.whole("num_bits", most=16), scheme.word("type", among=("float", "int")))
        names = {(8, "float"): "fp8", (8, "int"): "int8", (4, "float"): "nvfp4", (16, "float"): None}
        return names[kind] if kind in names else _unknown_kv(c, key)
    return None


def _unknown_kv(c: Config, key: str) -> str:
    raise Unsupported(
        f"{c.place(key)}: {shorten(str(c.data[key]))} is no cache format this version knows; fp8, int8, nvfp4"
    )


def _compressed(c: Config, top: Config) -> Recipe:
    """compressed-tensors: groups of targets, each with a scheme; a target is a class (Linear), a name or an expression."""
    if c.given("sparsity_config") and c.section("sparsity_config").data.get("format") not in (None, "dense"):
        raise Unsupported(f"{c.place('sparsity_config')}: sparse weights are not counted; only dense ones are")
    groups, everywhere, rules = c.section("config_groups"), None, []
    for key in groups.data:
        group = groups.section(key)
        name = _scheme(group)
        for target in group.items("targets", kind=str) if group.given("targets") else ["Linear"]:
            if target == "Linear":
                everywhere = name or None
            elif "." in target or ":" in target or target.islower():
                rules.append((target, name))
            else:
                raise Unsupported(f"{group.place('targets')}: the class {shorten(target)} is not known; Linear is")
    return Recipe(
        everywhere,
        _left(c, "ignore"),
        Patterns(rules, where=c.place("config_groups")),
        kv=_kv(c),
        towers=everywhere is not None,
    )


def _scheme(group: Config) -> str:
    """The format of a group's weights; activations say whether its products run in 8 or 4 bits or in 16."""
    if not group.given("weights"):
        return UNTOUCHED
    w = group.section("weights")
    n_bits = int(w.whole("num_bits", most=16))
    kind = w.word("type", among=("int", "float")) if w.given("type") else "int"
    strategy = str(w.word("strategy")) if w.given("strategy") else ("group" if w.given("group_size") else "tensor")
    narrow = group.given("input_activations")
    if strategy == "block":
        return _block_of(w, "block_structure") if kind == "float" and n_bits == 8 else _unknown_scheme(w)
    size = _group(w) if w.given("group_size") else 0
    if kind == "float":
        return _float_scheme(w, n_bits, size, narrow=narrow)
    if n_bits == 8 and size < 1:
        return "w8a8" if narrow else "int8"
    zero = "-zp" if w.given("symmetric") and not w.flag("symmetric") else ""
    return _named(f"int{n_bits}" if size < 1 else f"int{n_bits}-g{size}{zero}", w, "num_bits")


def _float_scheme(w: Config, n_bits: int, size: int, *, narrow: bool) -> str:
    names = {
        (8, 0): "fp8" if narrow else "fp8-w8a16",
        (8, 32): "mxfp8",
        (4, 16): "nvfp4" if narrow else "nvfp4-w4a16",
        (4, 32): "mxfp4",
    }
    return names.get((n_bits, max(size, 0))) or _unknown_scheme(w)


def _unknown_scheme(w: Config) -> str:
    said = ", ".join(f"{k} {shorten(str(w.data.get(k)), 20)}" for k in ("type", "num_bits", "strategy", "group_size"))
    raise Unsupported(f"{w.place('num_bits')}: no format this version knows has {said}")


_METHODS: Mapping[str, Callable[[Config, Config], Recipe]] = {
    "fp8": _fp8, "fbgemm_fp8": _fp8, "mxfp4": _mxfp4, "awq": _awq, "gptq": _gptq, "auto-round": _gptq,
    "bitsandbytes": _bitsandbytes, "compressed-tensors": _compressed, "modelopt": _modelopt, "modelopt_fp4": _modelopt,
    "modelopt_mixed": _modelopt, "hqq": _hqq, "eetq": _eetq, "mlx": _mlx,
}  # fmt: skip
