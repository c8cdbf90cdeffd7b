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
| mlx-Nbit          | N + 0.5 | groups of 64: a 16-bit scale and a 16-bit bias |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofline.errors import UnknownName, did_you_mean, shorten

__all__ = ["FORMATS", "Format", "format_named"]

_TABLES = frozenset({"embedding", "positions", "head"})  # what quantisers of linear layers leave in 16 bit
_POSITIONS = frozenset({"positions"})


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
    return Format(name, bits, "16bit", _W8_OR_LESS, _POSITIONS, head | roles)


def _mlx(n_bits: int) -> Format:
    # MLX quantises linear layers and the embedding alike
    return Format(f"mlx-{n_bits}bit", n_bits + 0.5, "16bit", _W8_OR_LESS, _POSITIONS)


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
        Format("w8a8", 8.0, "int8", _W8_OR_LESS, _TABLES),
        _weight_only("int8", 8.0),
        _weight_only("int4", 4.0),
        _weight_only("awq", 4.0 + 20.0 / 128),
        _weight_only("gptq", 4.0 + 20.0 / 128),
        Format("mxfp4", 4.25, "16bit", (*_W8_OR_LESS, "fp4"), _TABLES),
        Format("nvfp4", 4.5, "fp4", (*_W8_OR_LESS, "fp4"), _TABLES),
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
        *(_mlx(n) for n in (3, 4, 5, 6, 8)),
    )
}

_ALIASES = {
    "f32": "fp32", "float32": "fp32", "float": "fp32", "f16": "fp16", "float16": "fp16", "half": "fp16",
    "bfloat16": "bf16", "e4m3": "fp8", "e5m2": "fp8", "fp8-e4m3": "fp8", "fp8-e5m2": "fp8", "float8": "fp8",
    "w8a16": "int8", "w4a16": "int4", "int8-w8a8": "w8a8", "awq-g128": "awq", "gptq-g128": "gptq",
    "mlx-3": "mlx-3bit", "mlx-4": "mlx-4bit", "mlx-5": "mlx-5bit", "mlx-6": "mlx-6bit", "mlx-8": "mlx-8bit",
    "q4-k-s": "q4_k", "q5-k-s": "q5_k",
}  # fmt: skip
_BY_SPELLING = {f.replace("_", "-"): f for f in FORMATS} | _ALIASES


def format_named(name: str) -> Format:
    """The format of a name as people type it: case, `_` and `-` do not matter.

    >>> format_named("Q4_K_M").bits, format_named("F16").name, format_named("mlx-4bit").bits
    (4.5, 'fp16', 4.5)
    """
    found = _BY_SPELLING.get(str(name).strip().lower().replace("_", "-"))
    if found is None:
        known = ", ".join(FORMATS)
        near = did_you_mean(str(name), _BY_SPELLING)
        raise UnknownName(f'no number format named "{shorten(str(name), 40)}"{near}  (formats: {known})')
    return FORMATS[found]
