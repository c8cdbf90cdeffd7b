"""What a proof gives: every check, the steps of a generation, and the sum of it, as records, frames and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from roofline.evidence.reference.bench import EPS, Bench
from roofline.evidence.reference.checks import Check
from roofline.evidence.reference.shapes import Run

__all__ = ["Growth", "Proof", "Saving", "Verification"]

BYTES = ("weight_bytes", "kv_read_bytes", "kv_write_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """One token written: what it took on the cache, and from the first token on  [FLOP].

    `context_tokens` it attends to, itself among them [token]. `…_product_flops` are those of products with the layers'
    weights, `…_attention_flops` those of queries with keys and of their shares with values; the rest is the head's.
    """

    step: int
    context_tokens: int
    cached_flops: int
    uncached_flops: int
    cached_product_flops: int
    uncached_product_flops: int
    cached_attention_flops: int
    uncached_attention_flops: int

    @property
    def saved_flops(self) -> int:
        """What the cache saves  [FLOP]."""
        return self.uncached_flops - self.cached_flops


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """All that n tokens took  [FLOP], and how many times that of half as many  [1]."""

    n_tokens: int
    cached_product_flops: int
    uncached_product_flops: int
    cached_attention_flops: int
    uncached_attention_flops: int
    cached_products_grew: float
    uncached_products_grew: float
    cached_attention_grew: float
    uncached_attention_grew: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was asserted of one kind.

    Attributes
    ----------
    kind, title : str
    checks : tuple of Check
        Every pair of numbers that was compared.
    steps : tuple of Saving
        The generation, token by token.
    runs : tuple of Run
        Every pass, with the shapes of its products.
    unmasked_change : float or None
        How far keys and values of earlier tokens move with the last token where no mask keeps it from them; none where it
        was not tried [1].
    """

    kind: str
    title: str
    checks: tuple[Check, ...]
    steps: tuple[Saving, ...]
    runs: tuple[Run, ...] = field(repr=False)
    unmasked_change: float | None = None

    @classmethod
    def of(cls, bench: Bench, *, steps: tuple[Saving, ...], unmasked_change: float | None = None) -> Proof:
        """What a bench found."""
        return cls(
            kind=bench.kind.name, title=bench.kind.title, checks=tuple(bench.checks), steps=steps, runs=tuple(bench.runs),
            unmasked_change=unmasked_change,
        )  # fmt: skip

    @property
    def failed(self) -> tuple[Check, ...]:
        """Checks that did not pass."""
        return tuple(check for check in self.checks if not check.passed)

    @property
    def passed(self) -> bool:
        """Whether all did."""
        return not self.failed

    def worst(self, what: str) -> Check:
        """The check of a difference that came nearest to its limit, or went furthest beyond it."""
        return max((c for c in self.checks if c.what == what), key=lambda c: c.found / (c.limit or EPS))

    def total(self, *what: str, side: str = "found") -> float:
        """Σ of what one side ("found", "expected") has of these counts, over all ops of all passes  [FLOP or B]."""
        return float(sum(getattr(check, side) for check in self.checks if check.op and check.what in what))

    def to_dict(self) -> dict[str, Any]:
        """Flat: the sums of both sides, the worst difference of logits and of keys and values, and what failed."""
        logits, kv = self.worst("logits"), self.worst("keys and values")
        return {
            "kind": self.kind,
            "title": self.title,
            "passed": self.passed,
            "n_passes": len(self.runs),
            "n_checks": len(self.checks),
            "logit_difference": logits.found,
            "logit_bound": logits.limit,
            "kv_difference": kv.found,
            "kv_bound": kv.limit,
            "unmasked_kv_change": self.unmasked_change,
            "counted_flops": self.total("flops"),
            "ledger_flops": self.total("flops", side="expected"),
            "counted_bytes": self.total(*BYTES),
            "ledger_bytes": self.total(*BYTES, side="expected"),
            "failed": [check.said() for check in self.failed],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """All kinds that were asked for, and how the work of the first grows with what it writes."""

    proofs: tuple[Proof, ...]
    written: Proof
    seed: int

    @property
    def passed(self) -> bool:
        """Whether every check of every kind did."""
        return all(proof.passed for proof in (*self.proofs, self.written))

    @property
    def n_checks(self) -> int:
        """Pairs of numbers that were compared  [1]."""
        return sum(len(proof.checks) for proof in (*self.proofs, self.written))

    @property
    def n_passes(self) -> int:
        """Passes that were run  [1]."""
        return sum(len(proof.runs) for proof in (*self.proofs, self.written))

    def holds(self, *what: str) -> bool:
        """Whether there are checks of these, and all of them passed."""
        checks = [check for proof in (*self.proofs, self.written) for check in proof.checks if check.what in what]
        return bool(checks) and all(check.passed for check in checks)

    def failed(self) -> tuple[str, ...]:
        """What did not pass, with its kind and both numbers; a sentence each."""
        return tuple(f"{p.kind}: {c.said()}" for p in (*self.proofs, self.written) for c in p.failed)

    def growth(self) -> tuple[Growth, ...]:
        """The work of the first 2, 4, 8, … tokens, each against that of half of them."""
        steps, found, n = self.written.steps, [], 2
        while n <= len(steps):
            found.append(_grown(steps, n))
            n *= 2
        return tuple(found)

    def to_frame(self) -> Any:
        """A row a kind, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([proof.to_dict() for proof in self.proofs])

    def steps_frame(self) -> Any:
        """A row a token written, on the cache and afresh, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([_step(saving) for saving in self.written.steps])

    def to_dict(self) -> dict[str, Any]:
        """Plain data: whether it passed, kinds, steps, growth."""
        return {
            "passed": self.passed,
            "seed": self.seed,
            "n_checks": self.n_checks,
            "n_passes": self.n_passes,
            "failed": list(self.failed()),
            "kinds": [proof.to_dict() for proof in self.proofs],
            "steps_of": self.written.kind,
            "steps": [_step(saving) for saving in self.written.steps],
            "growth": [asdict(growth) for growth in self.growth()],
        }


def _step(saving: Saving) -> dict[str, Any]:
    return asdict(saving) | {"saved_flops": saving.saved_flops}


def _grown(steps: Sequence[Saving], n: int) -> Growth:
    names = [f"{side}_{what}" for side in ("cached", "uncached") for what in ("product", "attention")]
    whole, half = ({x: sum(getattr(s, f"{x}_flops") for s in steps[:m]) for x in names} for m in (n, n // 2))
    flops = {f"{name}_flops": whole[name] for name in names}
    grew = {f"{name.replace('product', 'products')}_grew": whole[name] / max(half[name], 1) for name in names}
    return Growth(n_tokens=n, **flops, **grew)
