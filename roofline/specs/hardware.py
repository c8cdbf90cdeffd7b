"""A chip as its vendor sells it: dense peaks, memory, caches, links, power, price. Facts, each with a source.

What a chip *achieves* is evidence and lives elsewhere. A YAML file in `hardware/` is one chip:

    id: h100-sxm-80gb
    name: NVIDIA H100 SXM5 80GB
    aliases: [h100, h100-sxm]
    vendor: NVIDIA
    kind: gpu
    compute:
      matrix:
        bf16: 989.4 TFLOP/s                                        # dense; accumulates in fp32
        fp16: {peak: 989.4 TFLOP/s, peak_acc16: …, peak_max: …}    # the long form
      vector:
        fp32: 66.9 TFLOP/s
    memory: {type: HBM3, capacity: 81559 MiB, bandwidth: 3.35 TB/s}
    sources:
      compute: NVIDIA H100 whitepaper V1.04, tables 1 and 3        # covers every value below compute
"""

import datetime
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from roofline.errors import SpecError, UnknownName, did_you_mean
from roofline.specs.record import ByteRate, Bytes, FlopRate, Names, Record, Seconds, UsdPerHour, Watts

__all__ = ["LINK_LATENCY_PRIOR_S", "Hardware", "Link", "Memory", "Peak"]

MatrixDType = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4", "int8", "int4"]
LinkKind = Literal[
    "nvlink", "nvlink-c2c", "xgmi", "infinity-fabric", "ici", "neuronlink", "hccs", "roce", "infiniband", "ethernet",
    "efa", "thunderbolt", "pcie", "socket", "unified", "dcn",
]  # fmt: skip
Id = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")]

LINK_LATENCY_PRIOR_S: Mapping[str, float] = {
    "nvlink": 2e-6, "nvlink-c2c": 1e-6, "xgmi": 3e-6, "infinity-fabric": 2e-6, "ici": 1e-6, "neuronlink": 3e-6,
    "hccs": 3e-6, "roce": 6e-6, "infiniband": 5e-6, "ethernet": 30e-6, "efa": 15e-6, "thunderbolt": 10e-6,
    "pcie": 5e-6, "socket": 1e-6, "unified": 0.5e-6, "dcn": 30e-6,
}  # fmt: skip
"""Per-message latency [s] assumed for a link kind where the spec gives none.

Order-of-magnitude priors, not facts: `Link.latency_is_prior` flags every use of one.
"""


class Peak(Record):
    """The dense rate of one matrix dtype [FLOP/s].

    `peak` accumulates in `accumulate` (where not said: int32 for integers, fp32 up to that width). `peak_acc16` is the rate
    with 16-bit accumulation where it is faster; `peak_max` is what the silicon is known to exceed the rated figure by (a
    sustained boost clock), and only bounds.
    """

    peak_flops_per_s: FlopRate = Field(alias="peak")
    accumulate: Literal["fp32", "fp16", "int32"] | None = None
    peak_acc16_flops_per_s: FlopRate | None = Field(default=None, alias="peak_acc16")
    peak_max_flops_per_s: FlopRate | None = Field(default=None, alias="peak_max")

    @property
    def bound_flops_per_s(self) -> float:
        """The highest rate this arithmetic may legally reach [FLOP/s]: what a floor must divide by."""
        return max(self.peak_flops_per_s, self.peak_acc16_flops_per_s or 0.0, self.peak_max_flops_per_s or 0.0)

    @model_validator(mode="after")
    def _max_is_max(self) -> Self:
        if self.peak_max_flops_per_s is not None and self.peak_max_flops_per_s < self.peak_flops_per_s:
            raise SpecError("peak_max: expected at least the rated peak; leave it out where the rating is not exceeded")
        return self


def _peak_form(value: object) -> object:
    return value if isinstance(value, (dict, Peak)) else {"peak": value}


class Compute(Record):
    """Arithmetic ceilings: `matrix` (tensor or matrix units, per dtype), `vector` (plain ALUs), and what is run as what."""

    matrix: dict[MatrixDType, Annotated[Peak, BeforeValidator(_peak_form)]]
    vector: dict[Literal["fp32", "fp16", "bf16"], FlopRate] = {}
    runs_as: dict[MatrixDType, MatrixDType] = {}  # a dtype the units lack, and the one it is computed in on this chip

    @field_validator("matrix")
    @classmethod
    def _some_peak(cls, value: dict[str, Peak]) -> dict[str, Peak]:
        if not value:
            raise SpecError("expected at least one dense peak, such as bf16: 989.4 TFLOP/s")
        return value


class MemorySize(Record):
    """One of the memory sizes a chip is sold with, as an option of the same spec (`m5-max-40c:64GB`)."""

    capacity_bytes: Bytes = Field(alias="capacity")
    bytes_per_s: ByteRate | None = Field(default=None, alias="bandwidth")  # where it differs


def _size_form(value: object) -> object:
    return value if isinstance(value, (dict, MemorySize)) else {"capacity": value}


class Memory(Record):
    """Device memory: what the driver reports [B], and the rated bandwidth [B/s]."""

    type: str
    capacity_bytes: Bytes = Field(alias="capacity")
    bytes_per_s: ByteRate = Field(alias="bandwidth")
    sizes: dict[str, Annotated[MemorySize, BeforeValidator(_size_form)]] = {}


class Cache(Record):
    """The last-level cache. A working set inside it beats the memory bandwidth; a floor speaks of larger ones."""

    kind: str
    capacity_bytes: Bytes = Field(alias="capacity")


class Link(Record):
    """A link, per direction and per chip [B/s]."""

    kind: LinkKind
    name: str = ""
    bytes_per_s: ByteRate | None = Field(default=None, alias="bandwidth")
    pair_bytes_per_s: ByteRate | None = Field(
        default=None, alias="pair_bandwidth"
    )  # to one neighbour, where it differs
    topology: Literal["switch", "mesh", "torus", "ring", "pair"] | None = None
    domain: int | None = Field(default=None, ge=1, le=1_000_000)  # chips reached without leaving this kind of link
    reduces: bool = False  # whether its switch adds up what it forwards (NVLink SHARP)
    declared_latency_s: Seconds | None = Field(default=None, alias="latency")

    @property
    def latency_s(self) -> float:
        """Per-message latency [s]: the spec's, or the prior of its kind (`latency_is_prior`)."""
        if self.declared_latency_s is not None:
            return self.declared_latency_s
        return LINK_LATENCY_PRIOR_S[self.kind]

    @property
    def latency_is_prior(self) -> bool:
        """Whether `latency_s` is the prior of its kind and not a fact of this chip."""
        return self.declared_latency_s is None


class Links(Record):
    """Scale-up (inside the box or rack), scale-out (between boxes), host (to CPU memory)."""

    scale_up: Link | None = None
    scale_out: Link | None = None
    host: Link | None = None


class Power(Record):
    """Rated board or package power [W]."""

    tdp_w: Watts = Field(alias="tdp")


class Price(Record):
    """What renting one chip for an hour cost on a date [USD/h]; an input to cost questions, never a silent default."""

    low_usd_per_h: UsdPerHour = Field(alias="low")
    high_usd_per_h: UsdPerHour = Field(alias="high")
    date: datetime.date
    note: str = ""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low_usd_per_h > self.high_usd_per_h:
            raise SpecError("expected low <= high")
        return self


class Hardware(Record):
    """One chip. Ceilings in SI; see the module's docstring for the file form."""

    id: Id
    name: str
    aliases: Names = ()
    vendor: str
    kind: Literal["gpu", "tpu", "npu", "soc", "cpu"]
    released: datetime.date | None = None
    compute: Compute
    memory: Memory
    cache: Cache | None = None
    links: Links = Field(default_factory=Links)
    power: Power | None = None
    price: Price | None = None
    confidence: Literal["high", "medium", "low"] | None = None
    sources: dict[str, str] = {}
    notes: str = ""

    def __hash__(self) -> int:
        return hash((self.id, self.memory_bytes, self.hbm_bytes_per_s))

    # the words the rest of the library uses

    @property
    def hbm_bytes_per_s(self) -> float:
        """β, the rated device-memory bandwidth [B/s]."""
        return self.memory.bytes_per_s

    @property
    def memory_bytes(self) -> float:
        """Device memory [B], as the driver reports it."""
        return self.memory.capacity_bytes

    def peak_flops_per_s(self, dtype: str) -> float:
        """π, the rated dense peak of a dtype this chip has units for [FLOP/s]; fp32 falls to the vector units."""
        peak = self._peak(dtype)
        return peak if isinstance(peak, float) else peak.peak_flops_per_s

    def bound_flops_per_s(self, dtype: str) -> float:
        """The highest rate the dtype may legally reach [FLOP/s]: `peak_max`, or 16-bit accumulation, or the rating."""
        peak = self._peak(dtype)
        return peak if isinstance(peak, float) else peak.bound_flops_per_s

    def has(self, dtype: str) -> bool:
        """Whether the chip has units for a compute dtype."""
        return dtype in self.compute.matrix or dtype in self.compute.vector

    def dtypes(self) -> tuple[str, ...]:
        """Compute dtypes the chip has units for."""
        return tuple(dict.fromkeys([*self.compute.matrix, *self.compute.vector]))

    def ridge(self, dtype: str) -> float:
        """I* = π/β [FLOP/B]: the intensity at which a kernel stops being bound by memory."""
        return self.peak_flops_per_s(dtype) / self.hbm_bytes_per_s

    def _peak(self, dtype: str) -> Peak | float:
        tables: tuple[Mapping[Any, Peak | float], ...] = (self.compute.matrix, self.compute.vector)
        for table in tables:
            if dtype in table:
                return table[dtype]
        raise UnknownName(
            f"{self.id} has no {dtype} units; it has {', '.join(self.dtypes())}{did_you_mean(dtype, self.dtypes())}"
        )

    def with_memory(self, size: str) -> Self:
        """The same chip in another of the memory sizes it is sold with."""
        for label, option in self.memory.sizes.items():
            if label.lower().replace(" ", "") == size.lower().replace(" ", ""):
                memory = self.memory.model_copy(
                    update={
                        "capacity_bytes": option.capacity_bytes,
                        "bytes_per_s": option.bytes_per_s or self.memory.bytes_per_s,
                    }
                )
                return self.model_copy(update={"id": f"{self.id}:{label}", "memory": memory})
        sold = ", ".join(self.memory.sizes) or "one size only"
        raise UnknownName(f"{self.id} is not sold with {size}; it comes in {sold}")

    # sources

    def unsourced(self) -> tuple[str, ...]:
        """Dotted paths of the figures that no entry of `sources` covers (a prefix covers all below it)."""
        covered = tuple(self.sources)
        return tuple(path for path in _figures(self) if not any(path == c or path.startswith(c + ".") for c in covered))

    @model_validator(mode="after")
    def _sources_point_somewhere(self) -> Self:
        paths = tuple(_figures(self))
        for key in self.sources:
            if not any(p == key or p.startswith(key + ".") for p in paths):
                raise SpecError(f"sources.{key}: names no figure of this file{did_you_mean(key, paths)}")
        return self

    @model_validator(mode="after")
    def _substitutes_exist(self) -> Self:
        for wanted, used in self.compute.runs_as.items():
            if used not in self.compute.matrix and used not in self.compute.vector:
                raise SpecError(
                    f"compute.runs_as.{wanted}: this chip has no {used} units; it has {', '.join(self.dtypes())}"
                )
            if wanted in self.compute.matrix:
                raise SpecError(
                    f"compute.runs_as.{wanted}: this chip has {wanted} units of its own; drop one of the two"
                )
        return self


def _figures(record: Record, prefix: str = "") -> Iterator[str]:
    """Dotted paths, in the file's own words, of every measured or rated figure in a chip."""
    for name, field in type(record).model_fields.items():
        value, path = getattr(record, name), prefix + (field.alias or name)
        if isinstance(value, Record):
            yield from _figures(value, path + ".")
        elif isinstance(value, dict) and name in ("matrix", "vector", "sizes", "runs_as"):
            for key, inner in value.items():
                if isinstance(inner, Record):
                    yield from _figures(inner, f"{path}.{key}.")
                else:
                    yield f"{path}.{key}"
        elif isinstance(value, float) or (name == "domain" and value is not None):
            yield path
