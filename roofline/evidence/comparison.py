"""Measured against predicted: a benchmark's runs, or an engine's log, beside what a deployment is said to do.

    measured = floor + fixed overhead + ceilings not reached + what no law here explains

Only what is one batch's passes is compared with passes; other loads are listed and labelled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import Any, Literal

from roofline.answers.estimates import interval, known_of
from roofline.answers.memory import memory
from roofline.errors import SpecError, require, shorten, shown
from roofline.evidence.agreement import disagreements, engine_differs
from roofline.evidence.calibration.own import BEATS
from roofline.evidence.passes import Figure, Totals, figures_of, not_static, said_of_load, totals_of
from roofline.evidence.readers import Log, Run, read, read_log, sniff
from roofline.specs.deployment import Deployment

__all__ = ["Compared", "Gap", "Row", "compare"]

PathLike = str | os.PathLike[str]
What = Literal["ttft", "tpot", "e2e", "output_tokens_per_s", "weight_bytes", "kv_bytes", "kv_tokens", "max_concurrency"]

_ROUNDING = 1e-6
_RUN_FIELDS: tuple[tuple[What, str], ...] = (
    ("ttft", "ttft_s"), ("tpot", "tpot_s"), ("e2e", "e2e_s"), ("output_tokens_per_s", "output_tokens_per_s"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured quantity, and what was predicted of it.

    Attributes
    ----------
    tool, where, load : str
        What wrote it, file and line, and how requests came.
    what : str
        ttft, tpot, e2e [s]; output_tokens_per_s [1/s]; of a log weight_bytes, kv_bytes [B], kv_tokens [token],
        max_concurrency [1].
    batch, prompt_tokens, past_tokens, context_tokens, output_tokens : float or None
        Of the run [1, token].
    measured, predicted, low, high, floor : float or None
        In the unit of `what`; of a speed the floor is the most there can be. No prediction where it is not compared.
    ratio : float or None
        measured / predicted [1].
    inside : bool or None
        Whether the interval holds it; none where there is no interval.
    beats_floor : bool
        Whether it is better than anything can be.
    fraction_of_roof, fraction_of_bandwidth, fraction_of_compute : float or None
        At the measured time: its floor; the bytes it must move at the rated bandwidth; its FLOPs at the rated peaks [1].
    overhead_s : float or None
        Launches, sequences and what a request costs once, of the predicted time [s].
    predicted_s, measured_s : float or None
        Both as times [s].
    intensity, predicted_flops_per_s, measured_flops_per_s : float or None
        Where it stands under the roof of one chip [FLOP/B, FLOP/s].
    note : str
        Why it is not compared, or how, or what is wrong with it.
    """

    tool: str
    where: str
    load: str
    what: What
    measured: float
    batch: float | None = None
    prompt_tokens: float | None = None
    past_tokens: float | None = None
    context_tokens: float | None = None
    output_tokens: float | None = None
    predicted: float | None = None
    low: float | None = None
    high: float | None = None
    floor: float | None = None
    ratio: float | None = None
    inside: bool | None = None
    beats_floor: bool = False
    fraction_of_roof: float | None = None
    fraction_of_bandwidth: float | None = None
    fraction_of_compute: float | None = None
    overhead_s: float | None = None
    measured_s: float | None = None
    predicted_s: float | None = None
    intensity: float | None = None
    measured_flops_per_s: float | None = None
    predicted_flops_per_s: float | None = None
    note: str = ""

    @property
    def compared(self) -> bool:
        """Whether there is a prediction beside it."""
        return self.predicted is not None


@dataclass(frozen=True, slots=True)
class Gap:
    """Where the measured time of a quantity goes: shares of it that add up to 1 for a row, medians over `n` rows.

    `floor` is the least possible, `overhead` launches and what is paid once, `ceilings` what the engine does not reach of
    the machine, `beyond` what is measured above the prediction [1]. `ratio` is measured / predicted time; `bandwidth` and
    `compute` are the shares of the rated ceilings in use [1].
    """

    what: What
    n: int
    floor: float
    overhead: float
    ceilings: float
    beyond: float
    ratio: float
    bandwidth: float
    compute: float

    def said(self) -> str:
        """The same in a sentence."""
        name = "Output rate" if self.what == "output_tokens_per_s" else self.what.upper()
        over = f" (median of {self.n})" if self.n > 1 else ""
        parts = f"{_percent(self.floor)} is the floor, {_percent(self.overhead)} fixed overhead"
        parts += f", {_percent(self.ceilings)} ceilings not reached"
        if self.ratio >= 1.0:
            parts += f", {_percent(self.beyond)} beyond the prediction"
        reached = f"{_percent(self.bandwidth)} of the rated bandwidth, {_percent(self.compute)} of the rated compute"
        faster = f"; {_percent(1.0 - self.ratio)} faster than predicted" if self.ratio < 0.995 else ""
        return f"{name}{over}: of the time, {parts}; it uses {reached}{faster}."


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


@dataclass(frozen=True, slots=True)
class Compared:
    """Every measured quantity of a file beside what was predicted of it.

    `warnings` are the reader's and what the file calls otherwise than the deployment; `ignored` the keys not used.
    """

    deployment: Deployment
    path: str
    rows: tuple[Row, ...]
    warnings: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def compared(self) -> tuple[Row, ...]:
        """The rows with a prediction."""
        return tuple(row for row in self.rows if row.compared)

    def where_the_gap_lies(self) -> tuple[Gap, ...]:
        """Of each quantity: floor, overhead, ceilings not reached, beyond; of the rows that do not beat their floor."""
        found = []
        for what, _ in _RUN_FIELDS:
            rows = [row for row in self.compared if row.what == what and not row.beats_floor]
            if rows:
                found.append(_gap(what, rows))
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """SI, unit in the key: the JSON of the command line."""
        d = self.deployment
        return {
            "path": self.path, "model": d.model.id, "hardware": d.hardware.id, "n_chips": d.n_chips, "engine": d.engine.id,
            "weights": d.numerics.weights_name, "kv": d.numerics.kv.name, "evidence": known_of(d).said,
            "rows": [asdict(row) for row in self.rows], "gaps": [asdict(gap) for gap in self.where_the_gap_lies()],
            "warnings": list(self.warnings), "ignored": list(self.ignored),
        }  # fmt: skip

    def to_frame(self) -> Any:
        """One row a measured quantity, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.rows], columns=[f.name for f in fields(Row)])


def compare(
    path: PathLike, deployment: Deployment, *, prefix_tokens: float = 0.0, shared_tokens: float = 0.0,
    progress: Callable[[str], None] | None = None,
) -> Compared:  # fmt: skip
    """What a benchmark measured, or an engine logged of its memory, beside what the deployment is predicted to do.

    Parameters
    ----------
    path : path
        A file of one of the benchmarks that `roofline.evidence.readers` reads, or an engine's log.
    deployment : Deployment
        What was measured. Of each run come batch and lengths; the rest is the deployment's.
    prefix_tokens, shared_tokens : float
        Of every prompt, what a prefix cache had of it, and what all prompts begin with [token].
    progress : callable, optional
        Called for every run of the file, with where it stands.

    Returns
    -------
    Compared

    Raises
    ------
    SpecError
        If the file cannot be read, or is of another model, chip, engine, plan or format than the deployment.

    Notes
    -----
    One user who asks one request after another is a static batch of one. More users, and requests that arrive, need a model
    of the load: they are listed, not compared. Decodes of a request are counted at up to 32 contexts.
    """
    require(deployment, Deployment, "compare(deployment)")
    if not isinstance(path, (str, os.PathLike)):
        raise SpecError(f"compare(path): expected the path of a file, got {shown(path)}")
    place = os.fspath(path)
    if sniff(place) == "engine log":
        return _logged(read_log(place), deployment, place)
    runs = read(place)
    rows: list[Row] = []
    said: list[str] = []
    others: list[str] = []
    for run in runs:
        if progress is not None:
            progress(run.where)
        told = disagreements(run, deployment)
        clear = next((one.said for one in told if one.clear), None)
        said.extend(one.said for one in told if not one.clear)
        said.extend(run.warnings)
        others.extend([clear] if clear else [])
        why = clear.removeprefix(f"{run.where}: ") if clear else not_static(run)
        if why:
            rows.extend(_labelled(run, why))
        else:
            rows.extend(_compared(run, deployment, prefix_tokens, shared_tokens))
    if len(others) == len(runs):
        raise SpecError(others[0] + (f"  (and {len(others) - 1} more runs)" if len(others) > 1 else ""))
    ignored = dict.fromkeys(key for run in runs for key in run.ignored)
    return Compared(deployment, place, tuple(rows), _once(said), tuple(ignored))


def _once(said: Iterable[str]) -> tuple[str, ...]:
    """Sentences without repeating for every line of a file what is the same in all."""
    found: dict[str, str] = {}
    for sentence in said:
        found.setdefault(sentence.partition(": ")[2], sentence)
    return tuple(found.values())


def _about(run: Run) -> dict[str, Any]:
    return {
        "tool": run.tool, "where": run.where, "load": run.load, "batch": run.batch, "prompt_tokens": run.prompt_tokens,
        "past_tokens": run.past_tokens, "context_tokens": run.context_tokens, "output_tokens": run.output_tokens,
    }  # fmt: skip


def _labelled(run: Run, why: str, *, but: Iterable[str] = ()) -> list[Row]:
    """What a run measured, with the reason why nothing is held against it."""
    measured = [(what, getattr(run, name)) for what, name in _RUN_FIELDS if what not in but]
    return [Row(**_about(run), what=what, measured=value, note=why) for what, value in measured if value is not None]


def _compared(run: Run, d: Deployment, prefix_tokens: float, shared_tokens: float) -> list[Row]:
    figures = figures_of(run, d, prefix_tokens=prefix_tokens, shared_tokens=shared_tokens)
    note = "" if run.load == "static" else said_of_load(run)
    rows = [_row(figure, d, note) for figure in figures]
    return rows + _labelled(run, "the file names no lengths to predict it with", but={f.what for f in figures})


def _row(figure: Figure, d: Deployment, note: str) -> Row:
    totals, took = totals_of(figure, d), figure.seconds
    band: Literal["ttft", "tpot", "e2e"] = "e2e" if figure.what == "output_tokens_per_s" else figure.what
    edges = interval(d, band, totals.seconds, totals.floor_s)
    low, high = (None, None) if edges is None else (float(edges[0]), float(edges[1]))
    beats = took < totals.floor_s * (1.0 - _ROUNDING)
    own = _in_unit(figure, totals, low, high)
    return Row(
        **_about(figure.run), what=figure.what, measured=figure.measured, **own, ratio=figure.measured / own["predicted"],
        inside=None if low is None or high is None else low <= took <= high, beats_floor=beats,
        fraction_of_roof=totals.floor_s / took, fraction_of_bandwidth=totals.compulsory_s / took,
        fraction_of_compute=totals.rated_s / took, overhead_s=totals.overhead_s, measured_s=took,
        predicted_s=totals.seconds, intensity=totals.flops / totals.hbm_bytes, measured_flops_per_s=totals.flops / took,
        predicted_flops_per_s=totals.flops / totals.seconds, note="; ".join(filter(None, [note, BEATS if beats else ""])),
    )  # fmt: skip


def _in_unit(figure: Figure, totals: Totals, low: float | None, high: float | None) -> dict[str, Any]:
    """Times, or the speeds they make, in which the slow edge is the low one."""
    if figure.tokens is None:
        return {"predicted": totals.seconds, "low": low, "high": high, "floor": totals.floor_s}
    n = figure.tokens
    return {"predicted": n / totals.seconds, "low": None if high is None else n / high,
            "high": None if low is None else n / low, "floor": n / totals.floor_s}  # fmt: skip


def _gap(what: What, rows: Sequence[Row]) -> Gap:
    parts = [_shares(row) for row in rows]
    floor, overhead, ceilings, beyond, ratio = (float(median(part[i] for part in parts)) for i in range(5))
    bandwidth, compute = (
        float(median(getattr(row, f"fraction_of_{name}") for row in rows)) for name in ("bandwidth", "compute")
    )
    return Gap(what, len(rows), floor, overhead, ceilings, beyond, ratio, bandwidth, compute)


def _shares(row: Row) -> tuple[float, float, float, float, float]:
    """Floor, overhead, ceilings not reached, beyond: shares of the measured time; and measured / predicted time  [1]."""
    took, estimate = row.measured_s or 1.0, row.predicted_s or 1.0
    floor = row.fraction_of_roof or 0.0
    expected = min(estimate / took, 1.0)
    overhead = min((row.overhead_s or 0.0) / took, expected - floor)
    return floor, overhead, expected - floor - overhead, 1.0 - expected, took / estimate


def _logged(log: Log, d: Deployment, path: str) -> Compared:
    """An engine's log against the memory it is predicted to set aside."""
    if engine_differs(log.engine, d):
        raise SpecError(f"{log.where}: engine: a log of {log.engine}, not of {d.engine.id}; add --engine {log.engine}")
    context = log.context_tokens_of_concurrency or log.kv_tokens or 1.0
    held = memory(d, context_tokens=min(context, float(d.model.max_context_tokens)), batch=1)
    one_process = log.engine == "llama.cpp"
    weights = held.weight_bytes if one_process else held.weight_bytes_per_chip
    rows = [_log_row(log, "weight_bytes", log.weight_bytes, weights)]
    if one_process:  # its cache is as long as it was told
        cache = None if log.kv_tokens is None else log.kv_tokens * held.kv_bytes_per_token
        rows.append(_log_row(log, "kv_bytes", log.kv_bytes, cache, note="at the length it was started with"))
    else:
        rows.append(_log_row(log, "kv_bytes", log.kv_bytes, held.kv_budget_bytes_per_chip))
        rows.append(_log_row(log, "kv_tokens", log.kv_tokens, held.kv_tokens))
        rows.append(_log_row(log, "max_concurrency", log.max_concurrency, held.kv_tokens / context, context=context))
    found = tuple(row for row in rows if row is not None)
    if not found:
        raise SpecError(f"{log.where}: the log names neither weights nor cache; nothing to compare")
    ideal = f"{log.where}: engine: a log of {log.engine}; the ideal machine reserves nothing (--engine {log.engine})"
    return Compared(d, path, found, (*log.warnings, *([ideal] if d.engine.id == "ideal" else [])))


def _log_row(
    log: Log,
    what: What,
    measured: float | None,
    predicted: float | None,
    *,
    context: float | None = None,
    note: str = "",
) -> Row | None:
    if measured is None:
        return None
    if predicted is None or not 0.0 < predicted < float("inf"):
        return Row(tool="engine log", where=shorten(log.where, 300), load="log", what=what, measured=measured,
                   note="nothing to hold against it")  # fmt: skip
    return Row(tool="engine log", where=shorten(log.where, 300), load="log", what=what, measured=measured,
               predicted=predicted, ratio=measured / predicted, context_tokens=context, note=note)  # fmt: skip
