"""An efficiency of one's own: fitted to one's benchmark files, drawn to what ships where they say little, kept as YAML."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, get_args

import numpy as np

from roofline.answers.estimates import held_s
from roofline.answers.phases import how_of
from roofline.errors import SpecError, require, shorten, shown
from roofline.evidence.agreement import disagreements
from roofline.evidence.calibration.fitting import Fit, fit
from roofline.evidence.calibration.kinds import Kind, Prior, kind_of
from roofline.evidence.calibration.lots import Lot, lot_of_parts
from roofline.evidence.calibration.shipped import LEAST_OF_A_BAND, conformal
from roofline.evidence.measurements import Measurement, Metric, What
from roofline.evidence.passes import Figure, figures_of, not_static
from roofline.evidence.readers import Run, read, sniff
from roofline.specs import catalog
from roofline.specs.deployment import Deployment
from roofline.timing.efficiency import IDEAL, Efficiency
from roofline.timing.shipped import Band, Known, known
from roofline.units import format_si

__all__ = ["BEATS", "Usable", "calibrate", "read_known", "read_own", "require_free", "usable", "write_known"]

BEATS = "beats the floor: check the unit, the model or the hardware"
DIGITS = 6
FAR_OFF = 20.0
"""A time so many times what is estimated is in another unit, or of something else."""
_WHOSE = ("model", "model_params", "hardware", "engine")
_METRICS: dict[str, Metric] = {"ttft": "ttft_s", "tpot": "tpot_s", "e2e": "e2e_s", "output_tokens_per_s": "e2e_s"}
_ROUNDING = 1e-6

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Usable:
    """The figures of files that a deployment can be fitted to, and why each other run is left out."""

    figures: tuple[Figure, ...]
    n_runs: int
    files: tuple[str, ...]
    left_out: tuple[str, ...]


def calibrate(
    paths: PathLike | Sequence[PathLike], deployment: Deployment, *, prior: Efficiency | None = None,
    prior_weight: float = 1.0,
) -> Known:  # fmt: skip
    """The efficiency that one's own benchmark files show of a deployment's engine on its chip.

    Robust least squares on the logarithms of static batches and of single users; closed and open loops of many are left out.
    A prior as wide as its kind's stands at the shipped efficiency, so that three figures are enough; what they leave open
    is in `at_prior`. The intervals are those of four in five of the residuals from 20 figures on; of fewer, never narrower
    than what the shipped ones were measured to need.

    Parameters
    ----------
    paths : path, or a sequence of them
        Files that `roofline.evidence.readers` reads.
    deployment : Deployment
        What was measured; its engine names the kind of law, and may not be "ideal".
    prior : Efficiency, optional
        Where the prior stands, instead of the shipped one.
    prior_weight : float
        How much the prior counts [1]; with 0, the fit only begins there.

    Returns
    -------
    Known
        To be given to `Deployment(efficiency=…)`, or to `write_known`.
    """
    require(deployment, Deployment, "calibrate(deployment)")
    if prior is not None:
        require(prior, Efficiency, "calibrate(prior=…)")
    if not isinstance(prior_weight, (int, float)) or not 0.0 <= prior_weight <= 1e6:
        raise SpecError(f"calibrate(prior_weight=…): expected 0 to 1,000,000, got {prior_weight!r:.60}")
    if deployment.engine.id == "ideal":
        raise SpecError(
            "calibrate: the ideal machine has nothing to fit; name the engine that was measured (--engine vllm)"
        )
    return _fitted(usable(paths, deployment), deployment, prior, prior_weight)


def usable(paths: PathLike | Sequence[PathLike], deployment: Deployment) -> Usable:
    """What of some files a deployment can be fitted to; an error where a file is of another one, or nothing is left."""
    listed = [paths] if isinstance(paths, (str, os.PathLike)) or not isinstance(paths, Iterable) else list(paths)
    for path in listed:
        if not isinstance(path, (str, os.PathLike)):
            raise SpecError(f"calibrate(paths): expected paths of files, got {shown(path)}")
    counted = _counted(deployment)
    figures: list[Figure] = []
    left_out: list[str] = []
    n_runs = 0
    for path in dict.fromkeys(os.fspath(p) for p in listed):
        if sniff(path) == "engine log":
            raise SpecError(f"{shorten(path, 300)}: an engine's log holds no times to fit; `roofline compare` reads it")
        for run in read(path):
            why = _left_out(run, deployment)
            found = () if why else _fitted_to(figures_of(run, counted))
            if found:
                figures.extend(found)
                n_runs += 1
            else:
                left_out.append(why or f"{run.where}: no time of a known length to fit to")
    if not figures:
        reasons = "; ".join(left_out[:2]) or "no file was given"
        more = f"; and {len(left_out) - 2} more" if len(left_out) > 2 else ""
        raise SpecError(f"calibrate: no run can be fitted to: {reasons}{more}")
    for figure in figures:
        _require_possible(figure)
    files = tuple(sorted({Path(os.fspath(p)).name for p in listed}))
    return Usable(tuple(sorted(figures, key=_order)), n_runs, files, tuple(left_out))


def _counted(deployment: Deployment) -> Deployment:
    """The same, ideal: counted, not estimated."""
    d = deployment
    return Deployment(model=d.model, hardware=d.hardware, plan=d.plan, precision=d.precision, engine=d.engine,
                      offload=d.offload, efficiency=IDEAL)  # fmt: skip


def _left_out(run: Run, deployment: Deployment) -> str | None:
    """Why a run is not fitted to; an error where its file is of another model, chip or engine."""
    clear = [x for x in disagreements(run, deployment) if x.clear]
    for one in clear:
        if one.field in _WHOSE:
            raise SpecError(one.said)
    if clear:
        return clear[0].said
    why = not_static(run)
    return None if why is None else f"{run.where}: {why}"


def _fitted_to(figures: Iterable[Figure]) -> tuple[Figure, ...]:
    """Of the figures of a run, those that do not follow from others: TTFT and TPOT, else what there is of the whole."""
    by = {figure.what: figure for figure in figures}
    found = [by[what] for what in ("ttft", "tpot") if what in by]
    if len(found) < 2:
        found += [by[what] for what in ("e2e", "output_tokens_per_s") if what in by][:1]
    return tuple(found)


def _order(figure: Figure) -> tuple[float | str, ...]:
    run = figure.run
    lengths = (run.batch, run.prompt_tokens, run.past_tokens, run.output_tokens)
    return (figure.what, *(n or 0.0 for n in lengths), figure.measured)


def _require_possible(figure: Figure) -> None:
    floor = sum(times * float(np.sum(timing.floor_s)) for times, timing in figure.parts)
    if figure.seconds < floor * (1.0 - _ROUNDING):
        took, least = format_si(figure.seconds, "s"), format_si(floor, "s")
        raise SpecError(f"{figure.run.where}: {figure.what}: {took} is below the least possible {least}: it {BEATS}")


def _lot(figures: Iterable[Figure], deployment: Deployment) -> Lot:
    d = _counted(deployment)
    held = held_s(d, how_of(d))
    return lot_of_parts([(_row(figure, d), figure.parts, held) for figure in figures])


def _row(figure: Figure, d: Deployment) -> Measurement:
    run = figure.run
    return Measurement(
        source=run.tool, hardware=d.hardware.id, engine=d.engine.id, version="", model=d.model.id,
        weights=d.numerics.weights_name, kv=d.numerics.kv.name, plan=f"tp={d.plan.tp}", attention="", batch_tokens=0.0,
        load="static", batch=run.batch or 1.0, prompt_tokens=run.prompt_tokens or 0.0, past_tokens=run.past_tokens or 0.0,
        context_tokens=run.context_tokens or 0.0, output_tokens=run.output_tokens or 0.0, metric=_METRICS[figure.what],
        value=figure.seconds, grade="A", date="", assumed="", where=run.where,
    )  # fmt: skip


def _fitted(found: Usable, d: Deployment, prior: Efficiency | None, prior_weight: float) -> Known:
    shipped = known(d.hardware, d.engine)
    lot = _lot(found.figures, d)
    _require_likely(lot, shipped, found)
    kind, believed = _prior(d, shipped, prior)
    one = fit(lot, kind, prior=believed, prior_weight=prior_weight)
    efficiency = _rounded(one.efficiency)
    runs, figures = _many(found.n_runs, "run"), _many(len(found.figures), "figure")
    left = f", {len(found.left_out)} left out" if found.left_out else ""
    return Known(
        efficiency=efficiency,
        regime="given",
        said=f"calibrated: {figures} of {runs} in {_listed(found.files)} on {d.hardware.name}{left}",
        n_rows=len(found.figures),
        bands=_bands(lot, efficiency, shipped),
        at_prior=tuple(sorted(_unsettled(one))),
    )


def _require_likely(lot: Lot, shipped: Known, found: Usable) -> None:
    ratios = lot.values / lot.predict(shipped.efficiency)
    worst = int(np.argmax(ratios))
    if ratios[worst] > FAR_OFF:
        raise SpecError(
            f"{found.figures[worst].run.where}: {found.figures[worst].what}: {format_si(float(lot.values[worst]), 's')} is "
            f"{float(ratios[worst]):,.0f} times what is expected; check the unit (ttft_ms, not ttft_s), or leave the run out"
        )


def _prior(d: Deployment, shipped: Known, given: Efficiency | None) -> tuple[Kind, Prior]:
    """The kind of the engine, with all that it does not fit as it ships; and a prior as wide as the kind's, around that."""
    own = kind_of(d.engine.id, d.engine.kind or "fused")
    if given is None and shipped.regime == "ideal":
        return own, own.prior
    values = (shipped.efficiency if given is None else given).model_dump()
    centred = {n: (c if values[n] is None else float(values[n]), width) for n, (c, width) in own.prior.items()}
    return Kind(own.prior, {n: v for n, v in values.items() if n not in centred}), centred


def _unsettled(one: Fit) -> set[str]:
    """Parameters that stay at their prior: those flagged, and as many as there are more parameters than figures."""
    loosest = sorted(one.left, key=lambda name: -one.left[name])
    return {*one.at_prior, *loosest[: max(0, len(loosest) - one.n_rows)]}


def _bands(lot: Lot, efficiency: Efficiency, shipped: Known) -> dict[str, Band]:
    off = np.log(lot.predict(efficiency) / lot.values)
    least = catalog.shipped_efficiencies()["bands"]["measured"]
    bands = dict(shipped.bands) if shipped.bands else {what: Band(**band) for what, band in least.items()}
    for what in ("ttft", "tpot", "e2e"):
        errors = off[lot.what == what]
        if not len(errors):
            continue
        factor = conformal(list(errors))
        if len(errors) < LEAST_OF_A_BAND and what in least:
            factor = max(factor, float(least[what]["high"]), 1.0 / float(least[what]["low"]))
        bands[what] = Band(low=_digits(1.0 / factor), high=_digits(factor))
    return bands


def _rounded(efficiency: Efficiency) -> Efficiency:
    values: dict[str, Any] = {n: v if v is None else _digits(v) for n, v in efficiency.model_dump().items()}
    return Efficiency(**values)


def _digits(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _many(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n:,} {noun}s"


def _listed(files: Sequence[str]) -> str:
    return shorten(", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else ""), 120)


def write_known(known: Known, path: PathLike, *, force: bool = False, deployment: Deployment | None = None) -> Path:
    """Keeps an efficiency as YAML, whole or not at all; a file that is there is only replaced with `force`.

    With the `deployment` it was fitted to, the file names its engine and chip.
    """
    target = Path(path)
    require_free(target, force=force)
    whose = {} if deployment is None else {"engine": deployment.engine.id, "hardware": deployment.hardware.id}
    data: dict[str, Any] = {"id": target.stem, "date": date.today().isoformat(), **whose, "said": known.said,
                            "n_rows": known.n_rows, "at_prior": list(known.at_prior),
                            "efficiency": known.efficiency.model_dump(),
                            "bands": {what: band.model_dump() for what, band in sorted(known.bands.items())}}  # fmt: skip
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            raise SpecError(f"{target}: expected a file")
        beside.write_text(catalog.yaml_text(data), encoding="utf-8")
        beside.replace(target)
    except OSError as error:
        raise SpecError(f"{target}: cannot be written ({error.strerror or error})") from None
    finally:
        with suppress(OSError):
            beside.unlink()
    return target


TIMES = get_args(What)


def require_free(path: Path, *, force: bool) -> None:
    """Raise where a file may not be written: something is there (a link that leads nowhere too), or the name cannot be."""
    try:
        taken = path.is_symlink() or path.exists()
    except OSError as error:
        raise SpecError(f"{shorten(str(path), 120)}: cannot be written ({error.strerror or error})") from None
    if taken and not force:
        raise SpecError(f"{path}: is there already; --force (force=True) replaces it")
    if not path.parent.is_dir():
        raise SpecError(f"{path}: cannot be written (there is no folder {path.parent})")


def read_known(path: PathLike) -> Known:
    """An efficiency that `write_known` kept, or one written by hand."""
    return read_own(path)[0]


def read_own(path: PathLike, *, chips: Sequence[str] = ()) -> tuple[Known, str | None]:
    """The same, and the engine it was fitted to where the file says; an error where it says another chip than some."""
    where = os.fspath(path)
    data = dict(catalog.load_yaml(Path(path)))
    about = {name: data.pop(name, None) for name in ("id", "date", "engine", "hardware")}
    if "efficiency" not in data:
        raise SpecError(f"{where}: expected an efficiency: such as `roofline calibrate` writes, got none")
    found = Known.read({"regime": "given", "said": f"as given: {Path(where).name}", **data}, where=where)
    if found.regime != "given":
        raise SpecError(f"{where}: regime: what a file says is as given, got {shown(found.regime)}; take the line out")
    _require_names(where, found)
    engine, chip = about["engine"], about["hardware"]
    if chip is not None and not isinstance(chip, str):
        raise SpecError(f"{where}: hardware: expected the id of a chip, got {chip!r:.60}")
    others = [c for c in chips if chip is not None and c.partition(":")[0] != chip.partition(":")[0]]
    if others:
        raise SpecError(
            f"{where}: was calibrated on {chip}, not on {others[0]}; calibrate there, or take its hardware line out"
        )
    if engine is not None and not isinstance(engine, str):
        raise SpecError(f"{where}: engine: expected the name of one, got {engine!r:.60}")
    return found, engine


def _require_names(where: str, found: Known) -> None:
    """Bands are of times that are estimated, and what stayed at its prior is a parameter."""
    for key, names, expected in (
        ("bands", found.bands, TIMES), ("off", found.off, TIMES), ("at_prior", found.at_prior, Efficiency.model_fields),
    ):  # fmt: skip
        for name in names:
            if name not in expected:
                raise SpecError(f"{where}: {key}: expected names of {', '.join(expected)}, got {shown(name)}")
