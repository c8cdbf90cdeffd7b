"""Which format each tensor is stored in, and which dtype its arithmetic runs in on a chip.

The one table of (format, chip) → (storage, compute):

| stored as                            | runs in                                                        |
|--------------------------------------|----------------------------------------------------------------|
| fp32, fp16, bf16                     | itself                                                         |
| fp8, fp8-block                       | fp8 units where the chip has them, else 16 bit on 8-bit storage |
| nvfp4                                | fp4 units where the chip has them, else 16 bit on 4-bit storage |
| w8a8                                 | int8 units, else 16 bit                                        |
| int8, int4, awq, gptq, mxfp4, ggml, mlx | the model's 16-bit dtype (weight-only: W8A16, W4A16)        |
| bf16 on a chip without bf16 units    | its `runs_as` (T4, V100: fp16; Apple M1, M2: emulated in fp32), else fp16 |
| fp16 on a chip without fp16 units    | bf16 (TPUs), else fp32                                         |
| the KV cache, any format             | attention computes in the model's 16-bit dtype                 |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from pydantic import AfterValidator, model_validator

from roofline.dtypes import FORMATS, Format, format_named, stored_as
from roofline.errors import SpecError, UnknownName, shorten
from roofline.specs.hardware import Hardware
from roofline.specs.layers import Layer
from roofline.specs.model import Model
from roofline.specs.record import Record
from roofline.specs.towers import Tower

__all__ = ["Numerics", "Precision", "lawful_dtypes", "run_dtype"]

COMPUTE_DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8", "int4")
_FLOATS = ("fp32", "fp16", "bf16")
MOST_ROLES = 6  # a checkpoint that names fewer leaves most matrices in its own dtype
_16BIT_CHAIN = ("bf16", "fp16", "fp32")
_FALLBACK = {
    "fp4": _16BIT_CHAIN, "fp8": _16BIT_CHAIN, "int8": _16BIT_CHAIN, "int4": _16BIT_CHAIN,
    "bf16": ("fp16", "fp32"), "fp16": ("bf16", "fp32"), "tf32": ("fp32",), "fp32": (),
}  # fmt: skip


def _compute_dtype(name: str) -> str:
    dtype = {"f16": "fp16", "f32": "fp32", "bfloat16": "bf16", "float16": "fp16"}.get(name.lower(), name.lower())
    if dtype != "auto" and dtype not in COMPUTE_DTYPES:
        known = ", ".join(COMPUTE_DTYPES)
        raise UnknownName(f'activations: no compute dtype named "{shorten(name)}"; use auto or one of {known}')
    return dtype


FormatName = Annotated[str, AfterValidator(lambda v: format_named(v).name)]
FormatOrAuto = Annotated[str, AfterValidator(lambda v: v if v == "auto" else format_named(v).name)]
ComputeDType = Annotated[str, AfterValidator(_compute_dtype)]


class Precision(Record):
    """Formats of the weights, the cache, the activations and the head.

    `weights` none: the checkpoint's own dtype. `kv` none: the dtype activations have. `activations` "auto": as the
    table above; a compute dtype ("fp8", "int8", "fp16", …) to insist on one. `head` "auto": as the weight format's
    recipe leaves it.
    """

    weights: FormatName | None = None
    kv: FormatName | None = None
    activations: ComputeDType = "auto"
    head: FormatOrAuto = "auto"

    @model_validator(mode="after")
    def _units_that_can_multiply_these_weights(self) -> Self:
        if self.activations in ("auto", "fp32", "fp16", "bf16", "tf32"):
            return self
        given, units = self.weights or "the checkpoint's own", self.activations
        weights = None if self.weights is None else format_named(self.weights)
        if weights is None or weights.bits > 9:
            raise SpecError(f"activations: {units} needs weights of 8 bits or fewer, got {given}; set weights too")
        if self.activations not in (weights.compute, *weights.lawful):
            usable = ", ".join(dict.fromkeys(d for d in (weights.compute, *weights.lawful) if d != "16bit"))
            raise SpecError(f"activations: {units} units do not multiply {given} weights; use auto or one of {usable}")
        return self

    def of(self, model: Model) -> Numerics:
        """The formats and compute dtypes of one model's tensors."""
        weights = format_named(self.weights or model.formats.get("*") or model.dtype)
        half = model.dtype if model.dtype in ("fp16", "bf16") else "bf16"  # what an fp32 checkpoint is quantised from
        kept = weights.name if weights.name in ("fp32", "fp16", "bf16") else half
        activations = self.activations if self.activations in ("fp32", "fp16", "bf16") else kept
        forced = None if self.activations == "auto" else self.activations
        return Numerics(
            weights=weights,
            kv=format_named(self.kv or model.formats.get("kv_cache") or activations),
            own=model.formats if self.weights is None else None,
            head=None if self.head == "auto" else format_named(self.head),
            dense=activations,
            kept=kept,
            forced=forced,
        )


@dataclass(frozen=True, slots=True)
class Numerics:
    """A `Precision` applied to one model: formats per role, and the compute dtype they want."""

    weights: Format
    kv: Format
    own: Mapping[str, str] | None  # the checkpoint's formats by role; none where others were asked for
    head: Format | None
    dense: str  # the dtype of activations and attention
    kept: str  # the dtype that whatever is not quantised is stored in: tables, norms, biases
    forced: str | None

    @property
    def weights_name(self) -> str:
        """What the weights are stored in, as people say it: one format, or those of a mixed checkpoint, most roles first."""
        roles = [name for role, name in (self.own or {}).items() if role not in ("kv_cache", "vectors")]
        if self.own is None or not roles or "*" in self.own:
            return self.weights.name
        named = [name for name, _ in Counter(roles).most_common(3)]
        return "+".join(dict.fromkeys([*named, self.weights.name] if len(roles) < MOST_ROLES else named))

    def store(self, role: str) -> Format:
        """The format the matrix of a role is stored in: asked for, the checkpoint's own, or as the recipe leaves it."""
        return self._stored(role)[0]

    def bytes_per_element(self, role: str) -> float:
        """Stored bytes of one element of the matrix of a role, scales included [B]."""
        return self._stored(role)[1] / 8.0

    def _stored(self, role: str) -> tuple[Format, float]:
        asked = {} if self.head is None else {"head": self.head.name}
        own = {r: name for r, name in (self.own or {}).items() if r != "*"}
        return stored_as(role, asked, own, {"*": self.weights.name}, kept=self.kept)

    def of_layer(self, layer: Layer) -> Numerics:
        """Those of one layer, where the checkpoint stores it otherwise than the rest."""
        if self.own is None or not layer.formats:
            return self
        weights = format_named(layer.formats["*"]) if "*" in layer.formats else self.weights
        return replace(self, weights=weights, own={**self.own, **layer.formats})

    def of_tower(self, tower: Tower) -> Numerics:
        """Those of a tower: recipes leave what sees and hears in 16 bit, and treat a text encoder as the decoder."""
        if tower.kind == "text":
            return self
        return replace(self, weights=FORMATS[self.kept], own=None if self.own is None else {}, head=None)

    def compute(self, role: str) -> str:
        """The dtype the matrix product of a role wants to run in; a chip may run it in another (`run_dtype`)."""
        store = self.store(role)
        if store.weight_only or store.name in ("fp32", "fp16", "bf16"):
            wanted = self.dense if store.weight_only else store.name
        else:
            wanted = store.compute
        usable = (*_FLOATS, store.compute, *store.lawful)  # units that multiply this store
        return self.forced if self.forced in usable and not self._left_alone(role) else wanted

    def _left_alone(self, role: str) -> bool:
        """Whether the recipe leaves the matrix of a role as it was."""
        return role in self.weights.kept_16bit and role not in (self.own or {})

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation element [B]: 4 in fp32, else 2, whatever a fused kernel quantises on the way."""
        return 4.0 if self.dense == "fp32" else 2.0

    @property
    def kept_bytes(self) -> float:
        """Stored bytes of one element of what is not quantised: norms, biases [B]; a checkpoint may keep them wider."""
        if self.own is not None and "vectors" in self.own:
            return format_named(self.own["vectors"]).bits / 8.0
        return 4.0 if self.kept == "fp32" else 2.0


def run_dtype(dtype: str, chip: Hardware) -> str:
    """The dtype a chip really runs a wanted compute dtype in: itself, or the first of its fallbacks with units here.

    >>> from roofline.specs.catalog import hardware
    >>> run_dtype("fp8", hardware("a100-sxm-80gb")), run_dtype("bf16", hardware("t4"))
    ('bf16', 'fp16')
    """
    if chip.has(dtype):
        return dtype
    substitutes: Mapping[Any, str] = chip.compute.runs_as
    for candidate in (substitutes.get(dtype, dtype), *_FALLBACK[dtype]):
        if chip.has(candidate):
            return candidate
    raise UnknownName(
        f"{chip.id} has no units that run {dtype}; it has {', '.join(chip.dtypes())}: give the weights in one of those"
    )


def lawful_dtypes(store: str, dtype: str, chip: Hardware) -> tuple[str, ...]:
    """Every dtype the arithmetic on a stored format may legally use on a chip: what a floor takes the fastest of.

    What is wanted, what the store allows or is itself multiplied in, and tf32 in place of fp32 whatever the store.

    >>> from roofline.specs.catalog import hardware
    >>> lawful_dtypes("bf16", "fp32", hardware("h100"))
    ('fp32', 'bf16', 'tf32')
    """
    stored = format_named(store)
    allowed = (stored.compute, *stored.lawful, *format_named(dtype).lawful) if dtype == "fp32" else stored.lawful
    return tuple(dict.fromkeys([run_dtype(dtype, chip), *(d for d in allowed if chip.has(d))]))


def require_units(precision: Precision, model: Model, chip: Hardware) -> None:
    """Raise unless the chip has the compute dtype that `activations` names, and runs what "auto" leads to."""
    numerics = precision.of(model)
    if numerics.forced is not None and not chip.has(numerics.forced):
        raise SpecError(
            f"activations: {chip.id} has no {numerics.forced} units; it has {', '.join(chip.dtypes())}; use one, or auto"
        )
    for role in ("q", "head"):
        run_dtype(numerics.compute(role), chip)


def substitutions(precision: Precision, model: Model, chip: Hardware) -> tuple[str, ...]:
    """Sentences on what this chip runs in another dtype than wanted, for the answer to say."""
    numerics = precision.of(model)
    said = []
    for role in ("q", "head"):
        wanted = numerics.compute(role)
        used = run_dtype(wanted, chip)
        if used != wanted:
            said.append(f"{chip.id} has no {wanted} units: runs in {used} on {numerics.store(role).name} storage")
    return tuple(dict.fromkeys(said))
