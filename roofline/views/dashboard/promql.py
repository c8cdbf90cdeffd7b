"""Queries: percentiles, means and rates of one engine's metrics, of the servers that the dashboard has chosen."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.answers.checklist import MOST_READING, Live
from roofline.views.engine_names import EngineNames

__all__ = ["Queries", "constant"]

CHOSEN = 'job=~"$job",model_name=~"$model_name",instance=~"$instance"'
WINDOW = "[$__rate_interval]"


def constant(value: float) -> str:
    """A line at a value.

    >>> constant(0.0123456789), constant(448816.0)
    ('vector(0.0123456789)', 'vector(448816)')
    """
    return f"vector({value:.12g})"


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries of one engine; arguments are the short names of its metrics."""

    names: EngineNames

    def chosen(self, metric: str, suffix: str = "") -> str:
        """Its series of the servers chosen."""
        return f"{self.names.metrics[metric]}{suffix}{{{CHOSEN}}}"

    def quantile(self, metric: str, share: float) -> str:
        """What so many stay within, of all servers together."""
        return f"histogram_quantile({share:g}, sum by (le) (rate({self.chosen(metric, '_bucket')}{WINDOW})))"

    def mean(self, metric: str) -> str:
        """Sum over count, each added up over servers first."""
        total, count = (f"sum(rate({self.chosen(metric, suffix)}{WINDOW}))" for suffix in ("_sum", "_count"))
        return f"{total} / {count}"

    def rate(self, metric: str) -> str:
        """A second, of all servers together."""
        return f"sum(rate({self.chosen(metric)}{WINDOW}))"

    def grown(self, metric: str) -> str:
        """By how much a counter has grown in the window."""
        return f"sum(increase({self.chosen(metric)}{WINDOW}))"

    def total(self, metric: str) -> str:
        """A gauge, added up over servers."""
        return f"sum({self.chosen(metric)})"

    def average(self, metric: str) -> str:
        """A gauge, in the mean over servers."""
        return f"avg({self.chosen(metric)})"

    def highest(self, metric: str) -> str:
        """A gauge, of the server where it is highest."""
        return f"max({self.chosen(metric)})"

    def per(self, metric: str, other: str) -> str:
        """One counter's rate over another's."""
        return f"{self.rate(metric)} / {self.rate(other)}"

    def tpot_now(self, live: Live, kv_tokens: float) -> str:
        """(base + per_seq·B + per_kv·u·K) / (1 − r·per_prompt), of the mean server now: see `answers.checklist.live`."""
        step = (
            f"({live.base_s:.9g} + {live.per_seq_s:.9g} * {self.average('running')}"
            f" + {live.per_kv_token_s * kv_tokens:.9g} * {self.average('kv_use')})"
        )
        reading = f"{live.per_prompt_token_s:.9g} * avg(rate({self.chosen('prompt_tokens')}{WINDOW}))"
        return f"{step} / clamp_min(1 - {reading}, {1.0 - MOST_READING:.9g})"
