"""The answers of a search: one row for every way of serving that keeps the objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from roofline.answers.sizing.candidates import Candidate, Dropped, formats_of, plan_label
from roofline.specs.slo import SLO

__all__ = ["Choice", "Sizing"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """A way of serving the asked rate within the objective.

    Attributes
    ----------
    candidate : Candidate
        One replica; of split pools, one that decodes.
    prefill : Candidate or None
        Of split pools, one that reads prompts.
    n_replicas, n_replicas_mean : int
        For the fullest minute, and what the mean rate alone would ask for [1]; of split pools those that decode.
    n_prefill : int
        Replicas that read prompts, of split pools [1].
    max_rate_per_s : float
        The largest rate of one replica within the objective [1/s]; of split pools, that a pair of them in the right
        proportion serves, for each replica.
    bound : str
        What stands against more.
    headroom : float
        Share of what the replicas can serve that the fullest minute leaves [1].
    times : dict
        At this rate, what the objective limits, and the mean TPOT [s].
    n_seq : float
        Sequences that decode on a replica [1].
    n_chips : int
        Of all replicas [1].
    usd_per_h : float or None
        Of all chips; none without a price on record [USD/h].
    usd_per_mtok : float or None
        For a million tokens, read and given, at the mean rate [USD].
    output_tokens_per_s_per_chip, tokens_per_s_per_user : float
        Throughput of a chip; 1 / mean TPOT [1/s].
    simulated : dict
        The same times from the simulation, of those that were simulated [s].
    """

    candidate: Candidate
    prefill: Candidate | None = None
    n_replicas: int
    n_replicas_mean: int
    n_prefill: int = 0
    max_rate_per_s: float
    bound: str
    headroom: float
    times: dict[str, float]
    n_seq: float
    n_chips: int
    usd_per_h: float | None
    usd_per_mtok: float | None
    output_tokens_per_s_per_chip: float
    tokens_per_s_per_user: float
    simulated: dict[str, float] = field(default_factory=dict)

    @property
    def split(self) -> bool:
        """Whether prompts are read on chips of their own."""
        return self.prefill is not None

    @property
    def label(self) -> str:
        """In words, such as "3 × (2 × h100-sxm-80gb tp2 fp8/fp8 b2048 s256)"."""
        one = f"{self.n_replicas} × ({self.candidate.label})"
        return one if self.prefill is None else f"{self.n_prefill} × ({self.prefill.label}) + {one}"

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI and USD, unit in the key."""
        d, r = self.candidate.deployment, self.candidate.replica
        head = {
            "hardware": d.hardware.id, "plan": plan_label(d.plan), "formats": formats_of(d), "engine": d.engine.id,
            "batch_tokens": r.batch_tokens, "max_seqs": r.max_seqs, "split": self.split,
        }  # fmt: skip
        kept = ("n_replicas", "n_replicas_mean", "n_prefill", "n_chips", "max_rate_per_s", "bound", "headroom", "n_seq")
        costs = ("usd_per_h", "usd_per_mtok", "output_tokens_per_s_per_chip", "tokens_per_s_per_user")
        found = head | {n: getattr(self, n) for n in kept} | dict(self.times) | {n: getattr(self, n) for n in costs}
        return found | {f"simulated_{n}": v for n, v in self.simulated.items()}

    def with_simulated(self, times: Mapping[str, float]) -> Choice:
        """The same, with what a simulation said."""
        return replace(self, simulated=dict(times))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sizing:
    """Ways of serving a rate within an objective, the cheapest first.

    Attributes
    ----------
    choices : tuple of Choice
        Of every chip, plan and formats the cheapest setting; by price of a million tokens, those without a price last.
    dropped : tuple of Dropped
        What fits no memory, or cannot keep the objective, and why.
    pareto : tuple of dict
        The front of tokens a second of a user against tokens a second of a chip, over all candidates and loads, with what
        each is, and whether it keeps the objective.
    rate_per_s, peak_rate_per_s : float
        The mean rate, and that of the fullest minute, which is sized for [1/s].
    slo : SLO
    n_tried : int
        Candidates, settings and pools.
    """

    choices: tuple[Choice, ...]
    dropped: tuple[Dropped, ...]
    pareto: tuple[dict[str, Any], ...]
    rate_per_s: float
    peak_rate_per_s: float
    slo: SLO
    n_tried: int

    @property
    def best(self) -> Choice | None:
        """The cheapest; none where nothing keeps the objective."""
        return self.choices[0] if self.choices else None

    @property
    def smallest(self) -> Choice | None:
        """That with the least memory on all its chips together; none where nothing keeps the objective."""
        return min(self.choices, key=lambda c: c.n_chips * c.candidate.deployment.hardware.memory_bytes, default=None)

    def to_frame(self) -> Any:
        """One row a choice, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([choice.to_dict() for choice in self.choices])

    def dropped_frame(self) -> Any:
        """One row for what was dropped, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([{f.name: getattr(d, f.name) for f in fields(d)} for d in self.dropped])

    def __repr__(self) -> str:
        best = "nothing keeps the objective" if self.best is None else f"best {self.best.label}"
        return f"Sizing({len(self.choices)} of {self.n_tried} tried; {best})"
