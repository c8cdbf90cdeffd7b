"""The ledger: what one forward pass must do, op by op, with no hardware in sight.

Counting writes it, timing reads it; neither knows the other. A pass enters only through a few *sums* (tokens, visible
pairs, cached tokens seen, logits wanted, …), and every count of every op is a linear form in them. So the ops of a model
are built once, and a grid of a million passes is a million values of a handful of sums.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from roofline.num import Num

__all__ = ["Collective", "Ledger", "Linear", "Op", "OpKind", "Row", "Sums", "add_up"]

OpKind = Literal[
    "gemm", "expert", "head", "attention", "recurrent", "elementwise", "embedding", "collective", "transfer"
]

Sums: TypeAlias = Mapping[Hashable, Num]
"""The sums of a pass: what each stands for is the business of whoever counts."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear form in the sums of a pass: constant + Σ coefficient · sum.

    >>> tokens = Linear.of("tokens")
    >>> (2.0 * tokens + tokens * 3.0 + 1.0).at({"tokens": 10.0})
    51.0
    """

    constant: float = 0.0
    terms: tuple[tuple[Hashable, float], ...] = ()

    @classmethod
    def of(cls, key: Hashable) -> Linear:
        """1 · the sum of that name."""
        return cls(0.0, ((key, 1.0),))

    def at(self, sums: Sums) -> Num:
        """Its value for a pass; a float for a pass of plain numbers, an array for a grid."""
        total: Num = self.constant
        for key, coefficient in self.terms:
            term = sums[key] * coefficient
            total = term if isinstance(total, float) and total == 0.0 else total + term
        return total

    def __add__(self, other: Linear | float) -> Linear:
        if not isinstance(other, Linear):
            return Linear(self.constant + other, self.terms)
        if not (self.terms and other.terms):
            return Linear(self.constant + other.constant, self.terms or other.terms)
        merged = dict(self.terms)
        for key, coefficient in other.terms:
            merged[key] = merged.get(key, 0.0) + coefficient
        return Linear(self.constant + other.constant, tuple((k, c) for k, c in merged.items() if c != 0.0))

    __radd__ = __add__

    def __mul__(self, factor: float) -> Linear:
        if not self.terms:
            return Linear(self.constant * factor)
        return Linear(self.constant * factor, tuple((k, c * factor) for k, c in self.terms if c * factor != 0.0))

    __rmul__ = __mul__

    def __sub__(self, other: Linear | float) -> Linear:
        return self + other * -1.0


@dataclass(frozen=True, slots=True)
class Collective:
    """Chips that exchange something: the verb, how many take part, and how far one is from the next in the order of ids.

    The payload of an op that is one: all_reduce, what every chip holds and gets back summed up; all_gather, what every chip
    has afterwards; reduce_scatter, what every chip has before; all_to_all and send, what a chip gives away.

    `direct`: every chip reads what the others hold, in one kernel, where they all reach one another.
    """

    verb: Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"]
    n_ranks: int
    stride: int = 1
    direct: bool = False


Q = TypeVar("Q", Num, Linear)
_NOTHING: Any = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Op(Generic[Q]):
    """One row of the ledger. Work in FLOP (a multiply-add is 2), traffic in bytes, of one layer.

    A model's rows are `Op[Linear]` (`Row`); the ledger of a pass gives them as `Op[Num]`, numbers that broadcast over the
    grid of the pass.

    Attributes
    ----------
    name, kind : str
        What it is called in the model, and which law of timing it falls under.
    repeat : float
        Layers that do the same [1]; every sum multiplies by it.
    n_launch : float
        Kernels it costs after the engine's fusion [1]: q, k and v are one (1, 0, 0), gate and up are one (1, 0).
    shape : str
        The matrix product in words, such as "(m, 4096) × (4096, 11008)".
    m
        Rows a kernel sees: tokens of the pass; for experts, tokens a touched expert; for the head, logits wanted.
    flops, extra_flops
        The model's own work [FLOP]; what this execution adds to it (masked-out squares of an eager score matrix; a dearer
        form of latent attention, where a product may save what the attention more than adds).
    row_flops
        FLOPs of one row of every tile a kernel starts: of a product 2·d_in·d_out (of every touched expert); of attention one
        query row per KV head over all keys, 2·K·(S + T)·(d_qk + d_v) a sequence [FLOP].
    score_elements
        Attention: (query, key) pairs the execution forms × query heads [1].
    flops_min
        The least any engine must do of `flops`, where some may skip work (none: all of it) [FLOP].
    weight_bytes, weight_bytes_min, weight_bytes_max
        Weights a pass is expected to stream, the least it must and the most it may (experts: all agree, all differ) [B].
    weight_row_bytes
        Weights of a product, once for every row it has: what rereading them for each row would move [B].
    kv_read_bytes, kv_read_bytes_min, kv_write_bytes
        Cache read as a kernel does (once a sequence) and at least (a shared prefix once), and written [B].
    state_bytes_min
        The least of `state_bytes` (none: all of it): one that sequences share is read once [B].
    state_bytes, act_bytes
        Recurrent state read and written; activations in and out, score matrices included [B].
    store_dtype, compute_dtype : str
        Format of what is streamed; dtype the arithmetic wants to run in.
    tier : str
        Where the streamed bytes live.
    collective : Collective or None
        Who exchanges, of an op that is an exchange between chips.
    link_bytes, link_bytes_min
        Its payload, and the least of it that must cross a link [B].
    products : tuple of (name, shape, share)
        Named matrix products inside a fused kernel, and their share of its FLOPs and cache bytes; empty for a single one.
    """

    name: str
    kind: OpKind
    repeat: float = 1.0
    n_launch: float = 1.0
    shape: str = ""
    m: Q = _NOTHING
    flops: Q = _NOTHING
    extra_flops: Q = _NOTHING
    flops_min: Q | None = None
    row_flops: Q = _NOTHING
    score_elements: Q = _NOTHING
    weight_bytes: Q = _NOTHING
    weight_bytes_min: Q = _NOTHING
    weight_bytes_max: Q = _NOTHING
    weight_row_bytes: Q = _NOTHING
    kv_read_bytes: Q = _NOTHING
    kv_read_bytes_min: Q = _NOTHING
    kv_write_bytes: Q = _NOTHING
    state_bytes: Q = _NOTHING
    state_bytes_min: Q | None = None
    act_bytes: Q = _NOTHING
    store_dtype: str = "bf16"
    compute_dtype: str = "bf16"
    tier: Literal["hbm", "host", "nvme"] = "hbm"
    collective: Collective | None = None
    link_bytes: Q = _NOTHING
    link_bytes_min: Q = _NOTHING
    products: tuple[tuple[str, str, float], ...] = ()

    @property
    def executed_flops(self) -> Q:
        """flops + extra_flops [FLOP, one layer]."""
        return self.flops + self.extra_flops

    @property
    def least_flops(self) -> Q:
        """What no execution gets around [FLOP, one layer]."""
        return self.flops if self.flops_min is None else self.flops_min

    @property
    def streamed_bytes(self) -> Q:
        """Everything this op streams: weights, cache, state, activations [B, one layer]."""
        return self.weight_bytes + self.kv_read_bytes + self.kv_write_bytes + self.state_bytes + self.act_bytes

    @property
    def compulsory_bytes(self) -> Q:
        """The least any execution moves: the certain weights, the cache read and written once, the state [B, one layer]."""
        state = self.state_bytes if self.state_bytes_min is None else self.state_bytes_min
        return self.weight_bytes_min + self.kv_read_bytes_min + self.kv_write_bytes + state

    def at(self, sums: Sums) -> Op[Num]:
        """The same row in numbers."""
        forms = {f.name: getattr(self, f.name) for f in fields(self)}
        values: dict[str, Any] = {n: v.at(sums) for n, v in forms.items() if isinstance(v, Linear)}
        return replace(self, **values)  # type: ignore[return-value]


Row: TypeAlias = Op[Linear]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Ledger:
    """All ops of one pass on the busiest chip of one pipeline stage of one replica.

    Totals add over ops from the first to the last, so a grid equals its points to the last bit.
    """

    rows: tuple[Row, ...]
    sums: Sums
    n_seq: Num
    n_tokens: Num
    resident_bytes: float  # weights this chip holds [B]
    stage: int = 0

    def __repr__(self) -> str:
        return f"Ledger({len(self.rows)} ops: {', '.join(row.name for row in self.rows[:4])}, …)"

    @property
    def ops(self) -> tuple[Op[Num], ...]:
        """The rows in numbers, one layer each."""
        return tuple(row.at(self.sums) for row in self.rows)

    def total(self, quantity: str) -> Num:
        """Σ over ops of repeat · the quantity of that name."""
        return summed(self.rows, quantity).at(self.sums)

    @property
    def flops(self) -> Num:
        """Model FLOPs of the pass: visible pairs, no padding [FLOP]."""
        return self.total("flops")

    @property
    def executed_flops(self) -> Num:
        """FLOPs the execution performs, what it adds included [FLOP]."""
        return self.total("executed_flops")

    @property
    def weight_bytes(self) -> Num:
        """Weights streamed [B]."""
        return self.total("weight_bytes")

    @property
    def weight_bytes_min(self) -> Num:
        """Weights any pass must stream: of the experts, those of one token [B]."""
        return self.total("weight_bytes_min")

    @property
    def weight_bytes_max(self) -> Num:
        """Weights a pass may have to stream: of the experts, as many as its tokens can touch [B]."""
        return self.total("weight_bytes_max")

    @property
    def kv_read_bytes(self) -> Num:
        """Cache read [B]."""
        return self.total("kv_read_bytes")

    @property
    def kv_write_bytes(self) -> Num:
        """Cache written [B]."""
        return self.total("kv_write_bytes")

    @property
    def state_bytes(self) -> Num:
        """Recurrent state read and written [B]."""
        return self.total("state_bytes")

    @property
    def act_bytes(self) -> Num:
        """Activations in and out [B]."""
        return self.total("act_bytes")

    @property
    def streamed_bytes(self) -> Num:
        """Everything streamed [B]."""
        return self.total("streamed_bytes")

    @property
    def compulsory_bytes(self) -> Num:
        """The least any execution streams [B]."""
        return self.total("compulsory_bytes")

    @property
    def link_bytes(self) -> Num:
        """Payloads of the exchanges between chips [B]."""
        return self.total("link_bytes")

    def by_op(self) -> tuple[dict[str, Any], ...]:
        """A dict per op, totals over its layers, for people and tables; fields as in `Op`, counts times `repeat`."""
        return tuple(
            {name: getattr(op, name) for name in _SAID} | {name: op.repeat * getattr(op, name) for name in _COUNTED}
            for op in self.ops
        )

    def to_frame(self) -> Any:
        """`by_op` as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.by_op())


_SAID = ("name", "kind", "shape", "repeat", "n_launch", "m", "store_dtype", "compute_dtype", "tier", "products")
_COUNTED = (
    "flops", "least_flops", "extra_flops", "executed_flops", "row_flops", "score_elements", "weight_bytes",
    "weight_bytes_min", "weight_bytes_max",
    "kv_read_bytes", "kv_read_bytes_min", "kv_write_bytes", "state_bytes", "act_bytes", "streamed_bytes", "link_bytes",
    "compulsory_bytes",
)  # fmt: skip


def summed(rows: Iterable[Row], quantity: str) -> Linear:
    """Σ over rows of repeat · the quantity of that name, one linear form for the whole pass."""
    total = Linear()
    for row in rows:
        total = total + getattr(row, quantity) * row.repeat
    return total


def add_up(terms: Iterable[Num]) -> Num:
    """Σ, left to right; the sum of one term is the term itself."""
    total: Num | None = None
    for term in terms:
        total = term if total is None else total + term
    return 0.0 if total is None else total
