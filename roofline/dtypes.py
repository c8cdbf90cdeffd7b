"""Number formats: how many bits an element really takes, which tensors a recipe leaves alone, what it computes in.

`bits` counts the block scales (and zero points) that travel with the elements, so a byte count is right to the byte for
whole blocks. Three things differ and are kept apart: the format a tensor is *stored* in, the dtype its arithmetic
*runs* in (`compute`; "16bit" means the model's own 16-bit dtype, as weight-only quantisation does), and the dtypes it
*may* legally run in (`lawful`), which only a floor asks for.

| format            | bits    | why |
|-------------------|---------|-----|
| fp8-block         | 8.00195 | an fp32 scale for each 128 × 128 block (DeepSeek-V3) |
| awq, gptq         | 4.15625 | groups of 128: a 16-bit scale and a 4-bit zero point |
| mxfp4             | 4.25    | blocks of 32: an 8-bit exponent (OCP MX v1.0) |
| nvfp4             | 4.5     | blocks of 16: an 8-bit scale (the per-tensor fp32 one is not counted) |
| q4_0, q5_0, q8_0  | 4.5, 5.5, 8.5 | blocks of 32: a 16-bit scale (ggml) |
| q4_1, q5_1        | 5, 6    | blocks of 32: a 16-bit scale and a 16-bit minimum (ggml) |
| q2_k … q6_k       | 2.625, 3.4375, 4.5, 5.5, 6.5625 | super-blocks of 256 (ggml) |
| iq1_s … iq4_xs    | 1.5625 … 4.25 | super-blocks of 256 with codebooks (ggml) |
| mlx-Nbit          | N + 0.5 | groups of 64: a 16-bit scale and a 16-bit bias |
| nf4, nf4-dq       | 4.5, 4.127 | blocks of 64: an fp32 maximum; -dq: that in 8 bits, an fp32 one for 256 of them |

Recipes with parameters have a name for every value of them, from which the format is made:

| name                        | bits                  | a group of g elements carries |
|-----------------------------|-----------------------|-------------------------------|
| gptq-Nbit-gG, awq-Nbit-gG   | N + (16 + N) / G      | a 16-bit scale and an N-bit zero point |
| intN-gG, intN-gG-zp         | N + 16/G, N + (16 + N)/G | a 16-bit scale (compressed-tensors); and a zero point |
| mlx-Nbit-gG, hqq-Nbit-gG    | N + 32 / G            | two 16-bit numbers |
| gptq-Nbit-channel, intN     | N                     | a scale an output channel, which is not counted |
| fp8-block-RxC               | 8 + 32 / (R · C)      | an fp32 scale a block |
| mixed-Bbit                  | B                     | parts of one matrix in several ggml types (GGUF) |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from roofline.errors import UnknownName, did_you_mean, shorten

__all__ = ["FORMATS", "Format", "format_named", "stored_as"]

_POSITIONS = frozenset({"positions"})
# Routers and the shared expert's gate decide much and weigh little; convolutions are no matrix products to a quantiser.
_SMALL = _POSITIONS | {"router", "shared_scale", "conv", "streams"}
# What quantisers of linear layers leave besides: both tables; steps, decays, index weights and compressors, which the
# checkpoints of DeepSeek, Qwen and Nemotron hold in 16 bit among their 8-bit ones.
_TABLES = _SMALL | {
    "embedding", "head", "side_embedding", "dt", "ba",
    "index_weights", "index_gate", "compress_kv", "compress_gate",
}  # fmt: skip
# What stays in 16 bit where only feed-forward layers are quantised (Llama-3.1-405B-FP8, but for its first and last layer).
_ATTENTION = frozenset({"q", "k", "v", "o", "q_a", "q_b", "kv", "kv_a", "k_b", "v_b", "o_a", "o_b", "out_gate"})


@dataclass(frozen=True, slots=True)
class Format:
    """A number format, or a recipe of formats.

    `bits` [bit/element] is the default; `role_bits` overrides it for some matrices ("v", "down", "head", …);
    `kept_16bit` names the matrices the recipe does not touch. Norms and biases always stay in 16 bit.
    """

    name: str
    bits: float
    compute: str  # a compute dtype, or "16bit"
    lawful: tuple[str, ...] = ()  # further compute dtypes an engine may use on it
    kept_16bit: frozenset[str] = frozenset()
    role_bits: Mapping[str, float] = field(default_factory=dict, hash=False)

    def bits_of(self, role: str) -> float:
        """Bits an element of the matrix with this role takes, scales included.

        >>> format_named("awq").bits_of("q"), format_named("awq").bits_of("head")
        (4.15625, 16.0)
        """
        return 16.0 if role in self.kept_16bit else self.role_bits.get(role, self.bits)

    @property
    def narrow(self) -> bool:
        """Whether an element is converted before arithmetic in 16 bits or more."""
        return self.bits < 16.0

    @property
    def weight_only(self) -> bool:
        """Stored narrow, computed in the model's 16-bit dtype (W4A16, W8A16)."""
        return self.compute == "16bit"


_FLOAT16 = ("fp16", "bf16")
_W8_OR_LESS = ("fp16", "bf16", "int8", "fp8")


def _weight_only(name: str, bits: float, **roles: float) -> Format:
    return Format(name, bits, "16bit", _W8_OR_LESS, _TABLES, roles)


def _ggml(name: str, bits: float, **roles: float) -> Format:
    # llama.cpp keeps the output matrix (or the tied table) in q6_k, except under q8_0; the token table in the base type
    head = {"head": 8.5 if name == "q8_0" else 6.5625}
    return Format(name, bits, "16bit", _W8_OR_LESS, _SMALL | {"side_project"}, head | roles)


def _mlx(name: str, bits: float) -> Format:
    # MLX quantises linear layers, routers among them, and the embedding alike
    return Format(name, bits, "16bit", _W8_OR_LESS, _POSITIONS | {"conv", "streams"})


# llama.cpp's "more bits" rule (first and last eighth of the layers, every third between) gives half of the value and
# down matrices the larger type: exact where 24 divides what is left of n_layers, within 1 % elsewhere. Where 256 does not
# divide a width, llama.cpp falls back to larger types; that is not in it (a GGUF file's own types would say).
_Q4_K_M = (4.5 + 6.5625) / 2
_Q5_K_M = (5.5 + 6.5625) / 2

FORMATS: Mapping[str, Format] = {
    f.name: f
    for f in (
        Format("fp32", 32.0, "fp32", ("tf32",)),
        Format("fp16", 16.0, "fp16", _FLOAT16),
        Format("bf16", 16.0, "bf16"),
        Format("fp8", 8.0, "fp8", _W8_OR_LESS, _TABLES),
        Format("fp8-block", 8.0 + 32.0 / 128**2, "fp8", _W8_OR_LESS, _TABLES),
        Format("fp8-ffn", 8.0, "fp8", _W8_OR_LESS, _TABLES | _ATTENTION),
        Format("w8a8", 8.0, "int8", _W8_OR_LESS, _TABLES),
        _weight_only("int8", 8.0),
        _weight_only("int4", 4.0),
        _weight_only("awq", 4.0 + 20.0 / 128),
        _weight_only("gptq", 4.0 + 20.0 / 128),
        _weight_only("nf4", 4.0 + 32.0 / 64),
        _weight_only("nf4-dq", 4.0 + 8.0 / 64 + 32.0 / (64 * 256)),
        Format("fp8-w8a16", 8.0, "16bit", _W8_OR_LESS, _TABLES),
        Format("mxfp8", 8.0 + 8.0 / 32, "fp8", _W8_OR_LESS, _TABLES),
        Format("mxfp4", 4.25, "16bit", (*_W8_OR_LESS, "fp4"), _TABLES),
        Format("nvfp4", 4.5, "fp4", (*_W8_OR_LESS, "fp4"), _TABLES),
        Format("nvfp4-w4a16", 4.5, "16bit", (*_W8_OR_LESS, "fp4"), _TABLES),
        # llama.cpp's "MXFP4 MoE" (gpt-oss): the experts in mxfp4, every other matrix in q8_0
        _ggml("mxfp4-moe", 8.5, head=8.5, expert_gate=4.25, expert_up=4.25, expert_down=4.25),
        _ggml("q2_k", 2.625),
        _ggml("q3_k", 3.4375),
        _ggml("q4_0", 4.5),
        _ggml("q4_1", 5.0),
        _ggml("q4_k", 4.5),
        _ggml("q4_k_m", 4.5, v=_Q4_K_M, down=_Q4_K_M),
        _ggml("q5_0", 5.5),
        _ggml("q5_1", 6.0),
        _ggml("q5_k", 5.5),
        _ggml("q5_k_m", 5.5, v=_Q5_K_M, down=_Q5_K_M),
        _ggml("q6_k", 6.5625),
        _ggml("q8_0", 8.5),
        _ggml("q8_1", 9.0),
        _ggml("q8_k", 9.125),
        _ggml("iq1_s", 1.5625, head=5.5),
        _ggml("iq1_m", 1.75, head=5.5),
        _ggml("iq2_xxs", 2.0625, head=5.5),
        _ggml("iq2_xs", 2.3125, head=5.5),
        _ggml("iq2_s", 2.5625, head=5.5),
        _ggml("iq3_xxs", 3.0625),
        _ggml("iq3_s", 3.4375),
        _ggml("iq4_nl", 4.5),
        _ggml("iq4_xs", 4.25),
        _ggml("tq1_0", 1.6875),
        _ggml("tq2_0", 2.0625),
        _ggml("q1_0", 1.125),
        *(_mlx(f"mlx-{n}bit", n + 0.5) for n in (2, 3, 4, 5, 6, 8)),
    )
}

_ALIASES = {
    "f32": "fp32", "float32": "fp32", "float": "fp32", "f16": "fp16", "float16": "fp16", "half": "fp16",
    "bfloat16": "bf16", "e4m3": "fp8", "e5m2": "fp8", "fp8-e4m3": "fp8", "fp8-e5m2": "fp8", "float8": "fp8",
    "w8a16": "int8", "w4a16": "int4", "int8-w8a8": "w8a8", "awq-g128": "awq", "gptq-g128": "gptq",
    "awq-4bit-g128": "awq", "gptq-4bit-g128": "gptq", "fp8-block-128x128": "fp8-block", "nf4-double": "nf4-dq",
    "fp8-per-channel": "fp8", "mlx-2": "mlx-2bit",
    "mlx-3": "mlx-3bit", "mlx-4": "mlx-4bit", "mlx-5": "mlx-5bit", "mlx-6": "mlx-6bit", "mlx-8": "mlx-8bit",
    "q4-k-s": "q4_k", "q5-k-s": "q5_k",
}  # fmt: skip
_BY_SPELLING = {f.replace("_", "-"): f for f in FORMATS} | _ALIASES

_BITS, _GROUP = r"(?P<n>[2-8])", r"g(?P<g>[1-9]\d{0,4})"
_FAMILIES: tuple[tuple[re.Pattern[str], Callable[[str, dict[str, float]], Format]], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (rf"(gptq|awq)-{_BITS}bit-{_GROUP}", lambda name, p: _weight_only(name, p["n"] + (16 + p["n"]) / p["g"])),
        (rf"gptq-{_BITS}bit-channel", lambda name, p: _weight_only(name, p["n"])),
        (rf"int{_BITS}", lambda name, p: _weight_only(name, p["n"])),
        (rf"int{_BITS}-{_GROUP}", lambda name, p: _weight_only(name, p["n"] + 16 / p["g"])),
        (rf"int{_BITS}-{_GROUP}-zp", lambda name, p: _weight_only(name, p["n"] + (16 + p["n"]) / p["g"])),
        (rf"mlx-{_BITS}bit-{_GROUP}", lambda name, p: _mlx(name, p["n"] + 32 / p["g"])),
        (rf"hqq-{_BITS}bit-{_GROUP}", lambda name, p: _weight_only(name, p["n"] + 32 / p["g"])),
        (
            r"fp8-block-(?P<g>[1-9]\d{0,4})x(?P<h>[1-9]\d{0,4})",
            lambda name, p: Format(name, 8 + 32 / (p["g"] * p["h"]), "fp8", _W8_OR_LESS, _TABLES),
        ),
        (r"mixed-(?P<b>\d{1,2}(\.\d{1,17})?)bit", lambda name, p: Format(name, p["b"], "16bit", _W8_OR_LESS)),
    )
)


def format_named(name: str) -> Format:
    """The format of a name as people type it: case, `_` and `-` do not matter.

    >>> format_named("Q4_K_M").bits, format_named("F16").name, format_named("mlx-4bit").bits
    (4.5, 'fp16', 4.5)
    >>> format_named("gptq-3bit-g64").bits, format_named("int4-g32").bits
    (3.296875, 4.5)
    """
    found = _format_of(str(name)[:200].strip().lower().replace("_", "-"))
    if found is None:
        near = did_you_mean(str(name)[:200], _BY_SPELLING)
        raise UnknownName(f'no number format named "{shorten(str(name), 40)}"{near}  (formats: {", ".join(FORMATS)})')
    return found


@lru_cache(maxsize=4096)
def _format_of(spelling: str) -> Format | None:
    found = _BY_SPELLING.get(spelling)
    if found is not None:
        return FORMATS[found]
    for pattern, make in _FAMILIES:
        match = pattern.fullmatch(spelling)
        if match:
            numbers = {k: float(v) for k, v in match.groupdict().items() if v is not None}
            if all(numbers.values()):
                return make(spelling, numbers)
    return None


def stored_as(role: str, *levels: Mapping[str, str], kept: str) -> tuple[Format, float]:
    """(format, bits an element takes) of the matrix of a role, as the first of the levels that names it says.

    A level maps roles, or "*", to formats: a role by name is in that format throughout; "*" is a recipe, with what it keeps
    in 16 bit and what it gives other bits. What no level names is in the `kept` dtype.

    >>> stored_as("q", {"down": "q6_k"}, {"*": "awq"}, kept="bf16")[1], stored_as("head", {"*": "awq"}, kept="bf16")[1]
    (4.15625, 16.0)
    """
    for level in levels:
        if role in level:
            pure = format_named(level[role])
            return pure, pure.bits
        if "*" in level:
            recipe = format_named(level["*"])
            if role not in recipe.kept_16bit:
                return recipe, recipe.bits_of(role)
            break
    whole = FORMATS[kept]
    return whole, whole.bits
