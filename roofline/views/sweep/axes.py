"""What a sweep runs over: records in every combination, and numbers that broadcast over each of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from roofline.answers.estimates import known_of
from roofline.answers.prediction import MAX_OUTPUT_TOKENS
from roofline.answers.sizing.candidates import plan_label
from roofline.errors import RooflineError, SpecError, UnknownName, require, shown
from roofline.num import checked
from roofline.specs import catalog
from roofline.specs.deployment import Deployment
from roofline.specs.engine import IDEAL_ENGINE, Engine
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.specs.plan import Plan
from roofline.specs.precision import Precision
from roofline.work.step import MAX_TOKENS

__all__ = ["NUMBERS", "RECORDS", "Combination", "Member", "combinations", "members_of", "numbers_of"]

RECORDS = ("models", "hardware", "plan", "engine", "weights", "kv")
NUMBERS = ("output_tokens", "batch", "prompt_tokens", "context_tokens")
LEAST = {"context_tokens": 0.0}
MOST_COMBINATIONS = 1_000_000


@dataclass(frozen=True, slots=True)
class Member:
    """A value of a record axis, and what its rows are to be called where it is not by its own name."""

    record: Any
    label: str | None = None

    @property
    def name(self) -> str:
        """What errors call it."""
        own = plan_label(self.record) if isinstance(self.record, Plan) else getattr(self.record, "id", self.record)
        return self.label or own or "own"


@dataclass(frozen=True, slots=True)
class Combination:
    """A deployment of a sweep, what its rows are called, and the tokens given for each prompt where that is asked."""

    deployment: Deployment
    labels: Mapping[str, str]
    output_tokens: int | None = None

    @property
    def said(self) -> str:
        """In words, as errors name it."""
        return said_of(self.labels[n] for n in ("model", "hardware", "plan", "engine", "weights", "kv"))


def said_of(names: Iterator[str]) -> str:
    """A combination in words: llama-3.1-8b on h100-sxm-80gb, tp1, ideal, bf16/bf16."""
    model, chip, plan, engine, weights, kv = names
    return f"{model} on {chip}, {plan}, {engine}, {weights}/{kv}"


def members_of(axis: str, given: Any) -> list[Member]:
    """The members of a record axis: one of them, a sequence, or a mapping from what they are to be called."""
    read = _READERS[axis]
    if isinstance(given, Mapping):
        found = [Member(read(axis, record), str(label)) for label, record in given.items()]
    elif given is None or isinstance(given, (str, os.PathLike, Model, Hardware, Plan, Engine)):
        found = [Member(read(axis, given))]
    elif isinstance(given, Sequence) and not isinstance(given, bytes):
        found = [Member(read(axis, record)) for record in given]
    else:
        raise SpecError(f"sweep({axis}): expected a name, a record, or a list of them, got {shown(given)}")
    if not found:
        raise SpecError(f"sweep({axis}): expected at least one, got an empty list")
    return found


def _model(axis: str, given: Any) -> Model:
    if isinstance(given, (str, os.PathLike)):
        return catalog.model(given)
    require(given, Model, f"sweep({axis})")
    return given  # type: ignore[no-any-return]


def _chip(axis: str, given: Any) -> Hardware:
    if isinstance(given, (str, os.PathLike)):
        return catalog.hardware(given)
    require(given, Hardware, f"sweep({axis})")
    return given  # type: ignore[no-any-return]


def _plan(axis: str, given: Any) -> Plan:
    plan = Plan() if given is None else given
    require(plan, Plan, f"sweep({axis})")
    return plan


def _engine(axis: str, given: Any) -> Engine:
    if isinstance(given, str):
        return IDEAL_ENGINE if given == "ideal" else catalog.engine(given)
    if not isinstance(given, Engine):
        raise SpecError(f"sweep({axis}): expected an engine or the name of one, got {shown(given)}")
    return given


def _format(axis: str, given: Any) -> str | None:
    """A format by its name, which is checked here: what no chip could hold is no combination to leave out."""
    if given is not None:
        Precision.read({axis: given}, where="sweep")
    return given  # type: ignore[no-any-return]


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "models": _model, "hardware": _chip, "plan": _plan, "engine": _engine, "weights": _format, "kv": _format,
}  # fmt: skip


def numbers_of(axis: str, given: Any) -> NDArray[np.float64]:
    """The values of a number axis, in order: in range, and each of them once."""
    most = MAX_OUTPUT_TOKENS if axis == "output_tokens" else MAX_TOKENS
    values = np.atleast_1d(checked(given, name=f"sweep({axis})", low=LEAST.get(axis, 1.0), high=most))
    if values.ndim > 1:
        raise SpecError(f"sweep({axis}): expected a number or a list of them, got an array of shape {values.shape}")
    once, counts = np.unique(values, return_counts=True)
    if once.size < values.size:
        twice = once[int(np.argmax(counts))]
        raise SpecError(
            f"sweep({axis}): {twice:g} is there {counts.max()} times; every value makes rows, so give it once"
        )
    if axis == "output_tokens" and np.any(values % 1.0):
        raise SpecError(f"sweep({axis}): expected whole numbers, got {values[np.argmax(values % 1.0 > 0.0)]:g}")
    return values


def combinations(
    records: Mapping[str, Sequence[Member]],
    outputs: Sequence[int | None],
    *,
    probe: Callable[[Combination], None],
    impossible: Literal["raise", "skip"],
    step: Callable[[str], None] | None = None,
) -> tuple[list[Combination], list[str]]:
    """Every combination that can be asked, in the order of the axes, the last fastest; and of the others, why not.

    Parameters
    ----------
    records : mapping
        Members by axis.
    outputs : sequence of int or None
        Output tokens, the last of the looped axes.
    probe : callable
        Asks one point, so that what cannot be answered is known before there is work.
    impossible : "raise" or "skip"
    step : callable, optional
        Told of every one.
    """
    n_all = prod(len(records[axis]) for axis in RECORDS) * len(outputs)
    if n_all > MOST_COMBINATIONS:
        raise SpecError(
            f"sweep: {n_all:,} combinations of records are more than {MOST_COMBINATIONS:,}; sweep in pieces"
        )
    found: dict[tuple[Any, ...], Combination] = {}
    left_out: list[str] = []
    for members, n_output in product(product(*(records[axis] for axis in RECORDS)), outputs):
        said = said_of(member.name for member in members)
        if step is not None:
            step(said)
        try:
            one = _deployed(members, n_output)
            probe(one)
        except UnknownName:
            raise
        except RooflineError as error:
            if impossible == "raise":
                raise type(error)(f'sweep: {said}: {error}  (impossible="skip" leaves such out)') from None
            left_out.append(f"{said}: {error}")
            continue
        key = (*(one.labels[n] for n in ("model", "hardware", "plan", "engine", "weights", "kv")), n_output)
        if key in found:
            raise SpecError(
                f"sweep: two combinations are both called {one.said}; leave one out, or name them, as in "
                'engine={"small pages": engine_a, "large pages": engine_b}'
            )
        found[key] = one
    if not found:
        of = f"; the first of {n_all:,} combinations" if n_all > 1 else ""
        raise SpecError(f"sweep: nothing of this can be asked{of}: {left_out[0]}")
    return list(found.values()), left_out


def _deployed(members: Sequence[Member], n_output: int | None) -> Combination:
    model, chip, plan, engine, weights, kv = members
    d = Deployment(
        model=model.record, hardware=chip.record, plan=plan.record, engine=engine.record, weights=weights.record,
        kv=kv.record,
    )  # fmt: skip
    labels = {
        "model": model.name, "hardware": chip.name, "plan": plan.name, "engine": engine.name,
        "weights": weights.label or d.numerics.weights_name, "kv": kv.label or d.numerics.kv.name,
        "evidence_regime": known_of(d).regime,
    }  # fmt: skip
    return Combination(d, labels, n_output)
