"""What the accuracy tables hold, as records, frames, JSON, Markdown and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from roofline.evidence.calibration.folds import REGIMES
from roofline.evidence.calibration.shipped import BAND_OF

__all__ = ["BYS", "HELD_OUT", "WHATS", "Accuracy", "BelowFloor", "By", "Coverage", "Errors", "share", "signed"]

By = Literal["engine", "hardware", "chip", "phase", "group"]
BYS: tuple[By, ...] = ("engine", "hardware", "chip", "phase", "group")
WHATS: Mapping[str, str] = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "static throughput"}
HELD_OUT: Mapping[str, str] = {
    "in-sample": "nothing (in-sample)", "model": "one model", "tp": "one TP degree", "hardware": "one machine",
    "engine": "one engine",
}  # fmt: skip


ERRORS_SAID = (
    "Absolute error of the time, median / 90th percentile, and bias (median of predicted over measured, less 1):"
)
COVERAGE_SAID = (
    "Intervals made to hold 80 %, each group's set on all other groups, and what they hold (t ×/÷ factor, share held):"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """How far one kind of estimate is off, over some of the measurements.

    `regime`: what was held out; `by` and `name`: which of them; `what`: "ttft", "tpot", "e2e" or "saturated". `median` and
    `p90` of the absolute error, `bias` the median signed one [1]; `n_rows` measurements of `n_groups` (engine, machine).
    """

    regime: str
    by: str
    name: str
    what: str
    median: float
    p90: float
    bias: float
    n_rows: int
    n_groups: int

    def said(self) -> str:
        """Median / 90th percentile of the error, and the bias, in percent: 8.7 / 28 / +1.7 %."""
        return f"{share(self.median)[:-2]} / {share(self.p90)[:-2]} / {signed(self.bias)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many held-out measurements an interval holds, whose width was set on all other groups.

    `band`: which interval of `Known` it is; `what`: "ttft", "tpot", "e2e", or "all" of them. `nominal` what it is made to
    hold, `coverage` of rows, `median_group` and `least_group` of whole groups, `least_name` the least, of `n_least_rows`
    [1]. `factor`: the interval is t/factor to t·factor [1]; none for "all", whose rows have the factor of their own kind.
    """

    regime: str
    band: str
    what: str
    nominal: float
    coverage: float
    median_group: float
    least_group: float
    least_name: str
    n_least_rows: int
    factor: float | None
    n_rows: int
    n_groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BelowFloor:
    """A measurement faster than the floor: a mistake in one of the two  [s]."""

    row: str
    value_s: float
    floor_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The tables. `regime` is what was held out in `by`; `saturated` is empty unless it was asked for.

    `least_over_floor`: the least of measured time over floor, of `n_floor_rows` measurements [1].
    """

    regime: str
    n_measurements: int
    by_regime: tuple[Errors, ...]
    by: Mapping[str, tuple[Errors, ...]]
    coverage: tuple[Coverage, ...]
    below_floor: tuple[BelowFloor, ...]
    n_floor_rows: int
    least_over_floor: float
    m5_max: tuple[Errors, ...]
    saturated: tuple[Errors, ...] = ()

    def errors(self) -> tuple[Errors, ...]:
        """Every table of errors, one after another."""
        return (*self.by_regime, *(e for name in BYS for e in self.by[name]), *self.m5_max, *self.saturated)

    def to_frame(self) -> Any:
        """A row for every kind of estimate in every table of errors, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([asdict(e) for e in self.errors()])

    def coverage_frame(self) -> Any:
        """A row an interval, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([asdict(c) for c in self.coverage])

    def to_dict(self) -> dict[str, Any]:
        """All tables, as the JSON of the command line has them: fractions of 1, times in seconds."""
        return {
            "regime": self.regime,
            "n_measurements": self.n_measurements,
            "n_floor_rows": self.n_floor_rows,
            "least_over_floor": self.least_over_floor,
            "below_floor": [asdict(b) for b in self.below_floor],
            "by_regime": [asdict(e) for e in self.by_regime],
            **{f"by_{name}": [asdict(e) for e in self.by[name]] for name in BYS},
            "coverage": [asdict(c) for c in self.coverage],
            "m5_max": [asdict(e) for e in self.m5_max],
            "saturated": [asdict(e) for e in self.saturated],
        }

    def to_markdown(self) -> str:
        """The headline tables: what a README says."""
        tables = ("\n".join(self._errors_table()), "\n".join(self._coverage_table()))
        said = "\n".join(f"- {sentence}" for sentence in self.sentences())
        return "\n\n".join((ERRORS_SAID, tables[0], COVERAGE_SAID, tables[1], said)) + "\n"

    def _errors_table(self) -> Iterable[str]:
        yield f"| held out | {' | '.join(WHATS.values())} | figures |"
        yield "|---|---|---|---|---|"
        for regime in REGIMES:
            row = {e.what: e for e in self.by_regime if e.regime == regime}
            cells = " | ".join(row[w].said() if w in row else "–" for w in WHATS)
            yield f"| {HELD_OUT[regime]} | {cells} | {sum(e.n_rows for e in row.values()):,} |"

    def _coverage_table(self) -> Iterable[str]:
        yield f"| interval | holds | median group | {' | '.join(WHATS.values())} | figures |"
        yield "|---|---|---|---|---|---|---|"
        for band in BAND_OF.values():
            row = {c.what: c for c in self.coverage if c.band == band}
            if "all" not in row:
                continue
            cells = " | ".join(f"×/÷ {row[w].factor:.2f}, {share(row[w].coverage)}" if w in row else "–" for w in WHATS)
            whole = row["all"]
            yield f"| {band} | {share(whole.coverage)} | {share(whole.median_group)} | {cells} | {whole.n_rows:,} |"

    def sentences(self) -> tuple[str, ...]:
        """What the tables leave out, said: the floor, an M5 Max, saturated throughput."""
        said = [self._floor_said()]
        phases = {"ttft": "prefill", "tpot": "decode"}
        parts = [
            f"{name} {', '.join(f'{phases[e.what]} {share(e.median)}' for e in self.m5_max if e.name == name)}"
            for name in dict.fromkeys(e.name for e in self.m5_max)
        ]
        if parts:
            said.append(f"M5 Max, one model held out, median error: {'; '.join(parts)}.")
        whole = next((e for e in self.saturated if e.name == "all"), None)
        if whole is not None:
            said.append(
                f"Saturated throughput of TensorRT-LLM, predicted at the best batch that fits: {whole.said()} "
                f"of {whole.n_rows:,} figures."
            )
        return tuple(said)

    def _floor_said(self) -> str:
        n = len(self.below_floor)
        if n:
            rows = "; ".join(b.row for b in self.below_floor)
            return f"Faster than the floor: {n:,} of {self.n_floor_rows:,} figures: {rows}."
        least = f"the fastest takes {self.least_over_floor:.2f} times its floor"
        return f"Faster than the floor: 0 of {self.n_floor_rows:,} figures; {least}."


def share(value: float) -> str:
    """Two digits of a share: 8.7 %, 28 %, 0 %."""
    return "0 %" if value == 0.0 else f"{100.0 * value:.1f} %" if abs(value) < 0.0995 else f"{100.0 * value:.0f} %"


def signed(value: float) -> str:
    """A share with its sign: +1.7 %."""
    return f"{100.0 * value:+.1f} %"
