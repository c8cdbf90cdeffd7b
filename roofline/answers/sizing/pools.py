"""From candidates to choices: as one pool that does all, and as two, of which one reads prompts and one decodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.answers.serving.lengths import Lengths
from roofline.answers.serving.steady import Rules
from roofline.answers.sizing.candidates import Candidate, Dropped, formats_of, plan_label
from roofline.answers.sizing.curves import FEW_LOADS, LOADS, Curves, Limit, curves
from roofline.answers.sizing.rows import Choice
from roofline.answers.sizing.stack import Stack, Stages, stacked
from roofline.answers.steps import seen_through
from roofline.answers.transfer import passed_on
from roofline.errors import SpecError, shown
from roofline.num import undominated
from roofline.specs.arrivals import Gamma
from roofline.specs.hardware import Hardware
from roofline.specs.slo import SLO
from roofline.specs.workload import Workload

__all__ = ["Priced", "choices_of"]

Floats = NDArray[np.float64]

LOT = 128  # candidates at once
N_SIZES = 4  # kinds of prompts that ranking tells apart
MOST_REJECTED = 1e-3  # share of requests a replica may be too small for
HOUR_S, MTOK = 3600.0, 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """What chips cost: by their records, or as given."""

    price: Literal["low", "high"]
    usd_per_chip_h: dict[str, float]

    def __post_init__(self) -> None:
        if self.price not in ("low", "high"):
            raise SpecError(f'size(price): expected "low" or "high", got {shown(self.price)}')
        for chip, usd in self.usd_per_chip_h.items():
            if not isinstance(usd, (int, float)) or isinstance(usd, bool) or not 0.0 <= usd < np.inf:
                raise SpecError(
                    f"size(usd_per_chip_h): {chip}: expected USD for an hour, such as 2.5, got {shown(usd)}"
                )

    def of(self, chip: Hardware) -> float | None:
        """One chip for an hour; none where nothing is known  [USD/h]."""
        if chip.id in self.usd_per_chip_h:
            return self.usd_per_chip_h[chip.id]
        if chip.price is None:
            return None
        return chip.price.low_usd_per_h if self.price == "low" else chip.price.high_usd_per_h


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """What every choice is made for."""

    slo: SLO
    rate: float
    peak: float
    tokens: float  # of a request, read and given
    answers: float  # of a request, given
    scv: float  # of the gaps between arrivals
    priced: Priced


def choices_of(
    lots: Sequence[list[Candidate]], workload: Workload, slo: SLO, *, rate: float, peak: float, split: bool, priced: Priced,
) -> tuple[list[Choice], tuple[dict[str, Any], ...], list[Dropped]]:  # fmt: skip
    """The cheapest setting of every lot as one pool and as two, the Pareto front of all, and what was dropped.

    A lot are the settings of one chip, plan and pair of formats.
    """
    held, dropped = [], []
    for lot in lots:
        why = _too_small(lot[0], workload)
        held.append(lot) if why is None else dropped.append(_dropped(lot[0], why))
    if not held:
        return [], (), dropped
    w = _lengths(held, workload)
    q = _Question(slo, rate, peak, w.prompt_mean + w.decode_mean + 1.0, w.decode_mean + 1.0, _scv(workload), priced)
    groups = _groups(held)
    whole = _curves(groups, held, w, tuple(slo.limits), q.scv)
    choices: list[Choice] = []
    points: list[dict[str, Any]] = []
    for lot, found in zip(held, whole, strict=True):
        limits = [found.limit(i, slo) for i in range(len(lot))]
        one = [_one_pool(c, found, i, limits[i], q) for i, c in enumerate(lot) if limits[i].rate_per_s > 0.0]
        choices += _cheapest(one)
        points += [p for i, c in enumerate(lot) for p in _points(c, found, i, q)] if w.decode_mean else []
        if not one:
            dropped.append(_dropped(lot[0], _why_not(found, limits, slo)))
    if split and w.decode_mean > 0.0 and "e2e_mean_s" not in slo.limits:
        two = list(_split(groups, held, w, q))
        choices += [c for c, _ in two if c is not None]
        points += [p for _, ps in two for p in ps]
    return choices, _front(points), dropped


def _scv(workload: Workload) -> float:
    """c_a² of the gaps: 1 of independent users; of a trace, within the minute that is sized for, as good as that."""
    return workload.arrivals.scv if isinstance(workload.arrivals, Gamma) else 1.0


def _lengths(lots: Sequence[list[Candidate]], workload: Workload) -> Lengths:
    windows = seen_through(lots[0][0].laws)  # of one model all see through the same
    page = lots[0][0].replica.page_tokens
    return Lengths.of(
        workload.prompt_tokens, workload.output_tokens, windows=windows, page_tokens=page, n_sizes=N_SIZES
    )


def _too_small(c: Candidate, workload: Workload) -> str | None:
    """Why a replica could never hold more than a few of the requests, if it is so."""
    total = workload.prompt_tokens + workload.output_tokens
    limit = c.replica.max_context_tokens or np.inf
    room = c.replica.n_pages * c.replica.page_tokens
    share = float(np.mean((total - 1 > room) | (total > limit)))
    if share <= MOST_REJECTED:
        return None
    what = f"the model reads at most {limit:,.0f}" if np.mean(total > limit) == share else f"its cache holds {room:,}"
    return f"{what} tokens; {share:.1%} of the requests are longer"


Group: TypeAlias = tuple[list[int], "Stack | Stages"]
"""The places of some lots, and their laws side by side."""


def _groups(lots: Sequence[list[Candidate]]) -> list[Group]:
    """Lots with equally many stages together, some hundred candidates at once."""
    found: list[Group] = []
    for n_stages in sorted({len(lot[0].laws) for lot in lots}):
        alike = [i for i, lot in enumerate(lots) if len(lot[0].laws) == n_stages]
        found += [(some, _side_by_side([lots[i][0] for i in some])) for some in _packed(alike, lots)]
    return found


def _curves(
    groups: Sequence[Group],
    lots: Sequence[list[Candidate]],
    w: Lengths,
    asked: tuple[str, ...],
    scv: float,
    at_loads: Floats = LOADS,
) -> list[Curves]:
    """Those of every lot."""
    found: dict[int, Curves] = {}
    for some, law in groups:
        every = [c for i in some for c in lots[i]]
        lot_of = np.repeat(np.arange(len(some)), [len(lots[i]) for i in some])
        together = _ranks_added(_asked(every, law, lot_of, w, asked, scv, at_loads), every)
        ends = np.cumsum([len(lots[i]) for i in some])
        found |= {
            i: _part(together, slice(end - len(lots[i]), end)) for i, end in zip(some, ends.tolist(), strict=True)
        }
    return [found[i] for i in range(len(lots))]


def _side_by_side(firsts: Sequence[Candidate]) -> Stack | Stages:
    """The laws of lots, each of which has one for all its settings."""
    ranks = [c.deployment.plan.dp for c in firsts]
    stages = [stacked([c.laws[j] for c in firsts], ranks) for j in range(len(firsts[0].laws))]
    if len(stages) == 1:
        return stages[0]
    plans = [c.deployment.plan for c in firsts]
    return Stages(tuple(stages), np.array([float(plan.microbatches or plan.pp) for plan in plans]))


def _packed(which: list[int], lots: Sequence[list[Candidate]]) -> Iterator[list[int]]:
    some: list[int] = []
    for i in which:
        some.append(i)
        if sum(len(lots[j]) for j in some) >= LOT:
            yield some
            some = []
    if some:
        yield some


def _asked(
    some: Sequence[Candidate],
    law: Stack | Stages,
    lot_of: NDArray[np.intp],
    w: Lengths,
    asked: tuple[str, ...],
    scv: float,
    at_loads: Floats,
) -> Curves:
    rules = Rules(
        batch_tokens=np.array([float(c.replica.batch_tokens) for c in some]),
        max_seqs=np.array([float(c.replica.max_seqs) for c in some]),
        kv_tokens=np.array([float(c.replica.n_pages * c.replica.page_tokens) for c in some]),
    )
    once = np.array([c.request_s for c in some])
    return curves(
        lambda which: law.of_points(lot_of[which]), w, rules, asked, request_s=once, arrivals_scv=scv, at_loads=at_loads
    )


def _ranks_added(found: Curves, some: Sequence[Candidate]) -> Curves:
    """Rates of whole replicas: of all their data-parallel ranks."""
    ranks = np.array([float(c.deployment.plan.dp) for c in some])
    return Curves(
        rate_per_s=found.rate_per_s * ranks[:, None], saturation_per_s=found.saturation_per_s * ranks, times=found.times,
        n_seq=found.n_seq * ranks[:, None], cache_full=found.cache_full, slots_full=found.slots_full,
    )  # fmt: skip


def _part(found: Curves, where: slice) -> Curves:
    return Curves(
        rate_per_s=found.rate_per_s[where], saturation_per_s=found.saturation_per_s[where], n_seq=found.n_seq[where],
        times={n: v[where] for n, v in found.times.items()}, cache_full=found.cache_full[where],
        slots_full=found.slots_full[where],
    )  # fmt: skip


def _one_pool(c: Candidate, found: Curves, i: int, limit: Limit, q: _Question) -> Choice:
    n, n_mean = (max(1, ceil(asked / limit.rate_per_s - 1e-9)) for asked in (q.peak, q.rate))
    return _choice(c, n=n, n_mean=n_mean, limit=limit, found=found, i=i, q=q)


def _choice(
    c: Candidate, *, n: int, n_mean: int, limit: Limit, found: Curves, i: int, q: _Question,
    prefill: Candidate | None = None, n_prefill: int = 0, capacity: float | None = None,
    times: dict[str, float] | None = None,
) -> Choice:  # fmt: skip
    each = q.rate / n
    seen = found.at(i, each) | (times or {})
    n_chips = n * c.deployment.n_chips + n_prefill * (prefill.deployment.n_chips if prefill else 0)
    usd = q.priced.of(c.deployment.hardware)
    per_h = None if usd is None else usd * n_chips
    most = n * limit.rate_per_s if capacity is None else capacity
    return Choice(
        candidate=c, prefill=prefill, n_replicas=n, n_replicas_mean=n_mean, n_prefill=n_prefill,
        max_rate_per_s=limit.rate_per_s, bound=limit.bound, headroom=1.0 - q.peak / most, times=seen,
        n_seq=found.seqs_at(i, each), n_chips=n_chips, usd_per_h=per_h,
        usd_per_mtok=None if per_h is None else per_h / HOUR_S / (q.rate * q.tokens) * MTOK,
        output_tokens_per_s_per_chip=q.rate * q.answers / n_chips,
        tokens_per_s_per_user=1.0 / seen["tpot_mean_s"] if seen["tpot_mean_s"] else np.inf,
    )  # fmt: skip


def _cheapest(choices: list[Choice]) -> list[Choice]:
    """The one of the fewest chips, of those the one with the most headroom."""
    return [min(choices, key=lambda c: (c.n_chips, -c.headroom))] if choices else []


def _split(
    groups: Sequence[Group], lots: Sequence[list[Candidate]], w: Lengths, q: _Question
) -> Iterator[tuple[Choice | None, list[dict[str, Any]]]]:
    """Of every lot the best pool that reads and the best that decodes, alike in chips, plan and formats."""
    ttft = tuple(n for n in q.slo.limits if n.startswith("ttft"))
    others = tuple(n for n in q.slo.limits if not n.startswith("ttft"))
    reading = _curves(groups, lots, w.prompts_alone(), ttft or ("ttft_mean_s",), q.scv, FEW_LOADS)
    decoding = _curves(groups, lots, w.answers_alone(), others, q.scv, FEW_LOADS)
    alone = _long_prompt_s(groups, len(lots), w)
    for lot, read, decode, reading_s in zip(lots, reading, decoding, alone, strict=True):
        if lot[0].deployment.hardware.links.scale_out is None:  # no link out of the node is on record
            continue
        passed_s, most = _passed_on(lot[0], w, reading_s)
        later = Curves(
            rate_per_s=read.rate_per_s, saturation_per_s=read.saturation_per_s, n_seq=read.n_seq,
            times={n: v + passed_s for n, v in read.times.items()}, cache_full=read.cache_full, slots_full=read.slots_full,
        )  # fmt: skip
        p = max(range(len(lot)), key=lambda i: later.limit(i, q.slo).rate_per_s)
        d = max(range(len(lot)), key=lambda i: decode.limit(i, q.slo).rate_per_s)
        to_read, to_decode = later.limit(p, q.slo), decode.limit(d, q.slo)
        reads = min(to_read.rate_per_s, most)
        if reads <= 0.0 or to_decode.rate_per_s <= 0.0:
            continue
        n_p, n_d = (max(1, ceil(q.peak / r - 1e-9)) for r in (reads, to_decode.rate_per_s))
        mean = max(1, ceil(q.rate / to_decode.rate_per_s - 1e-9))
        pair = Limit(1.0 / (1.0 / reads + 1.0 / to_decode.rate_per_s),
                     "link" if reads < to_read.rate_per_s else f"{to_read.bound} | {to_decode.bound}")  # fmt: skip
        capacity = min(n_p * reads, n_d * to_decode.rate_per_s)
        times = {n: v for n, v in later.at(p, q.rate / n_p).items() if n in ttft}
        yield (
            _choice(lot[d], n=n_d, n_mean=mean, limit=pair, found=decode, i=d, q=q, prefill=lot[p], n_prefill=n_p,
                    capacity=capacity, times=times),
            _pair_points(lot, decode, p, d, reads, q),
        )  # fmt: skip


def _passed_on(c: Candidate, w: Lengths, reading_s: float) -> tuple[float, float]:
    """What handing on the cache of a long prompt adds to a TTFT, each layer's sent while later ones compute, for all of
    which it takes `reading_s` [s]; and the requests a replica's links carry [1/s]."""
    d = c.deployment
    at = np.array([_long(w), w.prompt_mean])
    moving_s, seen_s = passed_on(d, tokens=at, reading_s=reading_s, links=(d.hardware.links.scale_out,))
    return float(np.asarray(seen_s)[0]), float(1.0 / np.asarray(moving_s)[1])


def _long(w: Lengths) -> float:
    """A long prompt: all but the longest hundredth are shorter  [token]."""
    return float(w.prompts[-2] if w.prompts.size > 1 else w.prompts[0])


def _long_prompt_s(groups: Sequence[Group], n: int, w: Lengths) -> list[float]:
    """What reading a long prompt alone takes each of n lots  [s]."""
    found = np.zeros(n)
    for some, law in groups:
        none = np.zeros(len(some))
        here = law.of_points(np.arange(len(some)))
        found[some] = here.alike(none, none, [none for _ in law.windows], 1.0, (_long(w), 0.0, 1.0))
    return [float(seconds) for seconds in found]


def _points(c: Candidate, found: Curves, i: int, q: _Question) -> list[dict[str, Any]]:
    """What a user and a chip get at every load of a candidate."""
    rate, tpot = found.rate_per_s[i], found.times["tpot_mean_s"][i]
    holds = ~(found.cache_full[i] | found.slots_full[i])
    keeps = np.all([found.times[n][i] <= limit for n, limit in q.slo.limits.items()], axis=0)
    name = _name(c)
    return [
        _point(name, 1.0 / tpot[j], rate[j] * q.answers / c.deployment.n_chips, bool(keeps[j]), False)
        for j in np.flatnonzero(holds)
    ]


def _pair_points(
    lot: list[Candidate], decode: Curves, p: int, d: int, reads: float, q: _Question
) -> list[dict[str, Any]]:
    """The same of two pools, in the right proportion: 1 / (n/λ_p + n/λ_d) requests a second of a chip."""
    rate, tpot = decode.rate_per_s[d], decode.times["tpot_mean_s"][d]
    holds = ~(decode.cache_full[d] | decode.slots_full[d])
    names = decode.times.keys() & q.slo.limits.keys()
    keeps = np.all([decode.times[n][d] <= q.slo.limits[n] for n in names], axis=0) & np.ones(rate.shape, dtype=bool)
    each = lot[p].deployment.n_chips / reads + lot[d].deployment.n_chips / rate
    label = f"{_name(lot[d])} split"
    return [_point(label, 1.0 / tpot[j], q.answers / each[j], bool(keeps[j]), True) for j in np.flatnonzero(holds)]


def _name(c: Candidate) -> str:
    """What tells a candidate from others in a picture: chips, layout, formats, tokens of a step."""
    d = c.deployment
    layout = "" if d.n_chips == 1 else f" {plan_label(d.plan)}"
    return f"{d.hardware.id}{layout} {formats_of(d)} b{c.replica.batch_tokens}"


def _point(label: str, user: float, chip: float, meets: bool, split: bool) -> dict[str, Any]:
    return {
        "label": label, "tokens_per_s_per_user": float(user), "output_tokens_per_s_per_chip": float(chip), "meets": meets,
        "split": split,
    }  # fmt: skip


def _front(points: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Those that no other beats in both, from the fastest for a user on."""
    user, chip = ([p[name] for p in points] for name in ("tokens_per_s_per_user", "output_tokens_per_s_per_chip"))
    return tuple(points[i] for i in undominated(user, chip))


def _dropped(c: Candidate, why: str) -> Dropped:
    d = c.deployment
    return Dropped(hardware=d.hardware.id, plan=plan_label(d.plan), formats=formats_of(d), why=why)


def _why_not(found: Curves, limits: Sequence[Limit], slo: SLO) -> str:
    """What an almost idle replica already misses, of the setting that comes nearest to the objective."""
    bounds = {limit.bound for limit in limits}
    if bounds <= {"cache", "sequences"}:
        what = " and ".join(sorted(bounds))
        return f"too little room ({what}) for the closed form to rank it: ask serve, which simulates"
    name = next(b for b in sorted(bounds) if b in slo.limits)
    least = float(np.min(found.times[name][:, 0]))
    what = {"ttft": "reading a prompt", "tpot": "a token", "itl_": "a gap between tokens", "e2e_": "a request"}[
        name[:4]
    ]
    most = 1e3 * slo.limits[name]
    return f"{name} of an almost idle replica is {1e3 * least:,.4g} ms, over {most:,.4g}: {what} takes as long"
