"""The columns a sweep can have: what each is of a block of rows, and what must be asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from roofline.answers.memory import SIZES
from roofline.errors import SpecError, UnknownName, did_you_mean, shown
from roofline.timing.clock import RESOURCES

__all__ = ["COLUMNS", "IDENTITY", "Column", "asked_columns", "with_words"]

Kind = Literal["word", "count", "number", "flag"]

IDENTITY = ("model", "hardware", "plan", "engine", "weights", "kv", "evidence_regime")
"""Words that a combination of records gives all of its rows."""

_PASS = ("flops", "hbm_bytes", "intensity", "mfu", "mbu")
_TTFT = ("ttft_s", "ttft_floor_s", "ttft_low_s", "ttft_high_s")
_TPOT = ("tpot_s", "tpot_floor_s", "tpot_low_s", "tpot_high_s")
_RATES = ("tokens_per_s_per_user", "tokens_per_s", "tokens_per_s_per_chip")
_E2E = ("e2e_s", "e2e_floor_s", "e2e_low_s", "e2e_high_s")
_USUAL = {"ttft": (*_TTFT, "ttft_bound"), "tpot": (*_TPOT, "tpot_bound", *_RATES), "e2e": _E2E}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, what it holds, and where a block of rows has it; of words, all there are.

    A count is whole and stored as an integer, a word as its place among `words` (−1 where there is none).
    """

    name: str
    kind: Kind
    path: str
    words: tuple[str, ...] = ()

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of its values in memory."""
        if self.kind == "word":
            return np.dtype(np.int8 if len(self.words) < 128 else np.int32)
        return np.dtype({"count": np.int64, "number": np.float64, "flag": np.bool_}[self.kind])


def _columns() -> dict[str, tuple[str, Column]]:
    """Every column by name, and the side it belongs to: what must have been asked."""
    found: dict[str, tuple[str, Column]] = {name: ("", Column(name, "word", name)) for name in IDENTITY}
    found["n_chips"] = ("", Column("n_chips", "count", "deployment.n_chips"))
    for name in ("output_tokens", "batch", "prompt_tokens", "context_tokens"):
        found[name] = (name, Column(name, "number", name))

    def add(side: str, where: str, names: Iterable[str], prefix: str = "") -> None:
        for name in names:
            found[prefix + name] = (side, Column(prefix + name, "number", f"{where}.{name}"))

    add("ttft", "prediction", _TTFT)
    add("ttft", "prediction.prefill", _PASS, prefix="prefill_")
    found["ttft_bound"] = ("ttft", Column("ttft_bound", "word", "prediction.prefill.binding", RESOURCES))
    add("tpot", "decoding", (*_TPOT, *_RATES))
    add("tpot", "decoding.decode", _PASS, prefix="decode_")
    found["tpot_bound"] = ("tpot", Column("tpot_bound", "word", "decoding.decode.binding", RESOURCES))
    add("e2e", "prediction", _E2E)
    add("", "memory", (name for name in (*SIZES, "max_batch", "max_context_tokens") if name != "fits"))
    found["fits"] = ("", Column("fits", "flag", "memory.fits"))
    found["exceeds_context"] = ("", Column("exceeds_context", "flag", "exceeds_context"))
    return found


COLUMNS = _columns()

_NEEDS = {
    "ttft": "prompt_tokens", "tpot": "context_tokens, or prompt_tokens and output_tokens",
    "e2e": "prompt_tokens and output_tokens",
}  # fmt: skip


def sides(numbers: Iterable[str]) -> set[str]:
    """What can be said where these number axes are given."""
    given = set(numbers)
    found = {"", *given}
    found |= {"ttft"} if "prompt_tokens" in given else set()
    found |= {"tpot"} if given & {"context_tokens", "output_tokens"} else set()
    return found | ({"e2e"} if "output_tokens" in given else set())


def usual(numbers: Sequence[str], *, estimated: bool) -> list[str]:
    """The columns where none are named: who, what was asked, what came out; of estimates their intervals and evidence."""
    said = sides(numbers)
    names = [*(n for n in IDENTITY if estimated or n != "evidence_regime"), "n_chips", *numbers]
    for side, its in _USUAL.items():
        names += [n for n in its if side in said and (estimated or not n.endswith(("_low_s", "_high_s")))]
    return [*names, "kv_bytes", "fits", "exceeds_context"]


def asked_columns(given: Any, numbers: Sequence[str], *, estimated: bool) -> list[Column]:
    """The columns asked for by name, in that order; the usual ones where none are."""
    if given is None:
        names = usual(numbers, estimated=estimated)
    elif isinstance(given, (list, tuple)) and given and all(isinstance(name, str) for name in given):
        names = list(given)
    else:
        raise SpecError(f"sweep(columns): expected names such as ['model', 'batch', 'tpot_s'], got {shown(given)}")
    said = sides(numbers)
    for i, name in enumerate(names):
        if name not in COLUMNS:
            raise UnknownName(f"sweep(columns): no column named {shown(name)}{did_you_mean(name, COLUMNS)}")
        side = COLUMNS[name][0]
        if side not in said:
            raise SpecError(f"sweep(columns): {name} needs {_NEEDS.get(side, side)}")
        if name in names[:i]:
            raise SpecError(f"sweep(columns): {name} is there twice")
    return [COLUMNS[name][1] for name in names]


def with_words(
    columns: Iterable[Column], words: Mapping[str, Sequence[str]], whole: Iterable[str]
) -> tuple[Column, ...]:
    """The same columns, with the words that occur, and the axes that are whole as counts."""
    counts = set(whole)
    return tuple(
        Column(c.name, "count" if c.name in counts else c.kind, c.path, tuple(words.get(c.name, c.words)))
        for c in columns
    )
