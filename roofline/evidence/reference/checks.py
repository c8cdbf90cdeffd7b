"""What one pass did, held against what the ledger says of it: op by op, and with ==."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from roofline.evidence.reference.counter import Counter, Work
from roofline.evidence.reference.decoder import Chunk
from roofline.ledger import Ledger, Linear
from roofline.specs.model import Model
from roofline.work.step import Seqs, Step

__all__ = ["COUNTS", "Check", "held_against", "step_of"]

COUNTS = ("flops", "weight_bytes", "kv_read_bytes", "kv_read_bytes_min", "kv_write_bytes")
_OF_LEDGER = {"flops": "executed_flops"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Two numbers that must agree, of one op of one pass (of a pass as a whole where no op is named).

    `found` is what the reference did, `expected` what it is held against; they agree where they differ by at most `limit`,
    which is 0 of every count. `what` is a count of the ledger, or what of two runs was compared.
    """

    run: str
    what: str
    found: float
    expected: float
    op: str = ""
    limit: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether they do; what is no number agrees with nothing."""
        return abs(self.found - self.expected) <= self.limit

    def said(self) -> str:
        """A sentence with both numbers."""
        where = f"{self.run}: {self.op + ': ' if self.op else ''}{self.what}"
        if self.expected == 0.0 and self.what not in COUNTS:
            return f"{where} differ by {self.found:.3g}, and may by {self.limit:.3g}"
        return f"{where}: counted {_plain(self.found)}, in the ledger {_plain(self.expected)}"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.17g}"


def step_of(chunks: Iterable[Chunk], *, n_shared: int = 0) -> Step:
    """The pass over these chunks as the ledger is asked about it: chunks that are alike are one part."""
    alike: dict[tuple[int, ...], int] = defaultdict(int)
    for chunk in chunks:
        n_inputs, n_read = len(chunk.inputs), len(chunk.inputs[0]) if chunk.inputs else 0
        memory = chunk.context.n_memory + n_inputs * n_read
        alike[len(chunk.tokens), chunk.context.n_tokens, chunk.n_logits, n_inputs, n_read, memory] += 1
    return tuple(
        Seqs(n_seq=n_seq, n_new=new, n_past=past, n_shared=min(n_shared, past), n_logits=logits, n_inputs=inputs,
             n_input_tokens=read, n_memory=memory)
        for (new, past, logits, inputs, read, memory), n_seq in alike.items()
    )  # fmt: skip


def held_against(counter: Counter, ledger: Ledger, model: Model, *, run: str = "pass") -> Iterator[Check]:
    """A check for every count of every op that is not 0 on both sides, and of the whole.

    FLOPs are those executed. Of experts the ledger gives the expected, the least and the most bytes: those of one pass must
    lie between the last two. Where layers read an earlier layer's cache an engine may skip tokens, and the least cache read
    is less than what runs here.
    """
    theirs = _by_op(ledger, [tower.kind for tower in model.towers])
    skips = any(getattr(x, "values", "own") == "earlier" for _, layer in model.layer_kinds() for x in layer.mixers)
    for op in sorted({*counter.work, *theirs}):
        mine, row = counter.work.get(op, Work()), theirs[op]
        for what in COUNTS:
            found, expected = float(getattr(mine, what)), row[_OF_LEDGER.get(what, what)]
            if found == expected == 0.0 or (skips and what == "kv_read_bytes_min"):
                continue
            if what == "weight_bytes" and row["expert"]:
                within = min(max(found, row["weight_bytes_min"]), row["weight_bytes_max"])
                yield Check(run=run, op=op, what="expert_weight_bytes", found=found, expected=within)
            else:
                yield Check(run=run, op=op, what=what, found=found, expected=expected)
    yield Check(run=run, what="flops", found=counter.total("flops"), expected=float(ledger.executed_flops))


def _by_op(ledger: Ledger, towers: Sequence[str]) -> dict[str, dict[str, float]]:
    """The ledger's counts by op, kinds of layers added up: `local.q_proj` is q_proj; a tower's stay apart."""
    names = ("executed_flops", "weight_bytes_min", "weight_bytes_max", *COUNTS)
    out: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys((*names, "expert"), 0.0))
    for row in ledger.rows:
        first, last = row.name.partition(".")[0], row.name.rpartition(".")[2]
        counts = out[f"{first}.{last}" if first in towers else last]
        for name in names:
            form = getattr(row, name)
            counts[name] += row.repeat * float(form.at(ledger.sums) if isinstance(form, Linear) else form)
        counts["expert"] += row.kind == "expert"
    return out
