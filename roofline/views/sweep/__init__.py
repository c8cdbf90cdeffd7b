"""Every combination of models, chips, plans, engines and formats, over grids of numbers: a row a point.

    sweep(…)        a DataFrame, or a file
    best, front     the best row of every group; the rows that nothing beats in both of two columns

Nothing is worked out here: a row is what `predict`, `decode` and `memory` say.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, closing
from functools import partial
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from roofline.answers.estimates import known_of
from roofline.errors import SpecError, did_you_mean, shown
from roofline.views.progress import progress as bar
from roofline.views.sweep.axes import NUMBERS, RECORDS, Combination, combinations, members_of, numbers_of
from roofline.views.sweep.columns import IDENTITY, Column, asked_columns, with_words
from roofline.views.sweep.points import Rows, blocks, in_tasks
from roofline.views.sweep.query import best, front
from roofline.views.sweep.room import require_room
from roofline.views.sweep.running import in_order, require_executor
from roofline.views.sweep.writing import Form, Target, Written, in_memory, target, written

__all__ = ["Written", "best", "front", "sweep"]

WAIT_S = 2.0
_FIRST = {"prediction": "prediction.ttft_s", "decoding": "decoding.tpot_s", "memory": "memory.fits"}
OTHERS = ("columns", "out", "executor", "impossible", "progress")


def sweep(
    *,
    models: Any = None,
    hardware: Any = None,
    plan: Any = None,
    engine: Any = "ideal",
    weights: Any = None,
    kv: Any = None,
    output_tokens: Any = None,
    batch: Any = 1,
    prompt_tokens: Any = None,
    context_tokens: Any = None,
    columns: Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    impossible: Literal["raise", "skip"] = "raise",
    progress: bool = True,
    **misspelt: Any,
) -> Any:
    """A row for every combination of models, chips, layouts, engines, formats and numbers.

    | given                                | a row says                                                              |
    |--------------------------------------|-------------------------------------------------------------------------|
    | `prompt_tokens`                      | `ttft_…` of `predict`: until the batch has its first tokens             |
    | `prompt_tokens` and `output_tokens`  | that, `tpot_…`, the mean over the answer, and `e2e_…` of `predict`      |
    | `context_tokens`                     | `tpot_…` of `decode`: the pass after so many tokens are in the cache    |
    | `prompt_tokens` and `context_tokens` | both, each at its own tokens                                            |

    Cache, `fits` and `exceeds_context` are those of `memory`: at the context, or where the request is longest.

    Parameters
    ----------
    models, hardware : name, path or record, or several
    plan : Plan, or several
    engine : name or Engine, or several
    weights, kv : format, or several
        None is the checkpoint's own. Each of these six may also be a mapping, from what its rows are to be called.
    output_tokens : int or array
        Tokens to generate for each request [token].
    batch : int or array
        Sequences together [1].
    prompt_tokens, context_tokens : int or array
        Of each sequence [token]. Every value of a number axis stands once.
    columns : sequence of str, optional
        Those to have, in that order, of the usual ones and of the further names of `predict` and `memory`:
        `prefill_` and `decode_` `flops`, `hbm_bytes`, `intensity`, `mfu`, `mbu`; `max_batch`, `kv_tokens`, `weight_bytes`, …
    out : path, optional
        Written there as the rows come, in bounded memory: `.parquet` or `.csv` is a file, a path that ends in "/" or has no
        suffix a folder of Parquet part files.
    executor : concurrent.futures.Executor, optional
        Where the rows are worked out: a ProcessPoolExecutor, Dask's `client.get_executor()`, … Each task is the records and
        the slices it needs. A folder's part files are written where they are worked out.
    impossible : "raise" or "skip"
        What to do about combinations that cannot be run (8 heads over 3 chips): an error that names the first; or leave
        them out, with a warning, and with all of them and their reasons in `frame.attrs["left_out"]`. What does not fit is
        a row, with `fits` False.
    progress : bool
        A bar on a terminal, where it takes more than two seconds.

    Returns
    -------
    DataFrame or Written
        A row a point in the order of the axes above, the last fastest; words as categoricals. With `out`, what was written:
        `path`, `n_rows`, `to_frame()`. A missing number is NaN: the interval of an ideal machine, the TPOT of one token.

    Raises
    ------
    SpecError
        Of an axis that is unknown, empty or out of range; of rows that do not fit memory, before any work.
    PlanError, Unsupported
        Of a combination that cannot be run.

    Notes
    -----
    Assumes, of a folder written by other machines, that they see the folder under the same path. Killed half-way, a sweep
    leaves a hidden `.NAME.PID.part` beside the name, never a part of it under the name itself.

    Examples
    --------
    >>> frame = sweep(models="llama-3.1-8b", hardware=["h100", "m5-max"], batch=[1, 64], context_tokens=[1024, 8192])
    >>> frame.shape[0], frame.tpot_bound.unique().tolist()
    (8, ['memory'])
    >>> best(frame[frame.fits], by="tokens_per_s_per_chip", per="hardware")[["hardware", "batch"]].values.tolist()
    [['h100-sxm-80gb', 64], ['m5-max-40c', 64]]
    """
    records = {"models": models, "hardware": hardware, "plan": plan, "engine": engine, "weights": weights, "kv": kv}
    numbers = {
        "output_tokens": output_tokens, "batch": batch, "prompt_tokens": prompt_tokens, "context_tokens": context_tokens,
    }  # fmt: skip
    _require_axes(misspelt, records, numbers)
    if impossible not in ("raise", "skip"):
        raise SpecError(f'sweep(impossible): expected "raise" or "skip", got {shown(impossible)}')
    require_executor(executor)
    where = None if out is None else target(out)
    values = {axis: numbers_of(axis, given) for axis, given in numbers.items() if given is not None}
    named = list(values)
    asked = asked_columns(columns, named, estimated=True)
    members = {axis: members_of(axis, given) for axis, given in records.items()}
    outputs = [int(n) for n in values.pop("output_tokens")] if output_tokens is not None else [None]
    n_combinations = prod(map(len, members.values())) * len(outputs)
    with bar(n_combinations if progress else 0, wait_s=WAIT_S) as step:
        found, left_out = combinations(
            members, outputs, probe=partial(_ask, asked, values), impossible=impossible, step=step
        )
    if left_out:
        said = f"{len(left_out):,} of {n_combinations:,} combinations left out; the first: {left_out[0]}"
        warnings.warn(f'sweep: {said}  (frame.attrs["left_out"] has all)', stacklevel=2)
    if columns is None and not any(known_of(one.deployment).bands for one in found):
        asked = asked_columns(None, named, estimated=False)
    return _rows(found, values, asked, where=where, executor=executor, progress=progress, left_out=tuple(left_out))


def _require_axes(misspelt: Mapping[str, Any], records: Mapping[str, Any], numbers: Mapping[str, Any]) -> None:
    """Refuse what is no axis, and a sweep that asks nothing, or asks two things of one token."""
    for name in misspelt:
        near = did_you_mean(name, (*RECORDS, *NUMBERS, *OTHERS)) or f"; the axes are {', '.join((*RECORDS, *NUMBERS))}"
        raise SpecError(f"sweep: there is no axis {shown(name)}{near}")
    for name in ("models", "hardware"):
        if records[name] is None:
            raise SpecError(f"sweep: expected {name}=…: a name, a path, a record, or several")
    prompt, context, output = (numbers[f"{name}_tokens"] is not None for name in ("prompt", "context", "output"))
    if not (prompt or context):
        raise SpecError(
            "sweep: expected prompt_tokens (TTFT), context_tokens (TPOT), or prompt_tokens and output_tokens"
        )
    if output and not prompt:
        raise SpecError("sweep(output_tokens): an answer follows a prompt; say prompt_tokens as well")
    if output and context:
        raise SpecError(
            "sweep(context_tokens): of an answer, output_tokens say which contexts there are; leave one of the two out"
        )


def _ask(columns: Sequence[Column], values: Mapping[str, NDArray[np.float64]], one: Combination) -> None:
    """The largest point of a combination: what cannot be asked there is refused before there is work."""
    rows = Rows(one.deployment, one.output_tokens, {axis: float(given.max()) for axis, given in values.items()})
    for answer in {c.path.partition(".")[0] for c in columns} & _FIRST.keys():
        rows.get(_FIRST[answer])


def _rows(
    found: Sequence[Combination], values: Mapping[str, NDArray[np.float64]], asked: Sequence[Column], *,
    where: Target | None, executor: Executor | None, progress: bool, left_out: tuple[str, ...],
) -> Any:  # fmt: skip
    """The rows of combinations that can be asked, in memory or written."""
    words = {name: tuple(dict.fromkeys(one.labels[name] for one in found)) for name in IDENTITY}
    whole = [axis for axis, given in values.items() if not np.any(given % 1.0)]
    columns = with_words(asked, words, whole=(*whole, "output_tokens"))
    n_rows = len(found) * prod(given.size for given in values.values())
    if where is None:
        require_room(columns, n_rows)
    with bar(n_rows if progress else 0, wait_s=WAIT_S) as step:

        def run(form: Form) -> AbstractContextManager[Iterator[Any]]:
            tasks = in_tasks(blocks(found, values, words), form.n_blocks)
            return closing(in_order(tasks, form, executor=executor, in_flight=form.in_flight, step=step))

        if where is not None:
            return Written(where.path, written(where, run, columns), columns, left_out)
        frame = in_memory(run, columns, n_rows)
    frame.attrs["left_out"] = left_out
    return frame
