"""A sizing in words: the cheapest ways as a table, what they rest on, what was dropped and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline.answers.sizing import Choice, Offline, Sizing
from roofline.answers.sizing.candidates import formats_of, plan_label
from roofline.specs.deployment import Deployment
from roofline.specs.model import Model
from roofline.views.cli.common import print_table, say, table
from roofline.views.cli.load import Load
from roofline.views.cli.words import percent, seconds, three, trust

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["show", "show_jobs"]

BOUNDS = {
    "steps": "full steps",
    "cache": "the cache",
    "sequences": "sequences at once",
    "link": "the link between pools",
}
MOST_DROPPED = 6
FAR = 0.05  # from where the mean and the fullest minute are told apart


def show(spec: Model, load: Load, found: Sizing, *, n_rows: int) -> None:
    """The answer for people."""
    limits = ", ".join(f"{_short(name)} ≤ {seconds(limit)}" for name, limit in found.slo.limits.items())
    say(f"{spec.id}: {three(found.rate_per_s)} requests/s within {limits}")
    say(f"requests: {load.said}")
    if found.peak_rate_per_s > found.rate_per_s * (1.0 + FAR):
        more = found.peak_rate_per_s / found.rate_per_s
        say(f"sized for the fullest minute, {three(found.peak_rate_per_s)}/s: {three(more)} times the mean")
    if found.best is not None:
        for line in trust(found.best.candidate.deployment)[:1]:
            say(f"of the first row: {line}")
    say()
    if found.choices:
        print_table(_table(found, n_rows))
        say()
        for line in _sentences(found, n_rows):
            say(line)
    else:
        say("Nothing that was tried keeps this within its memory and the SLO.")
    for line in _dropped(found):
        say(line)


def _short(name: str) -> str:
    """ttft_p95_s as people say it."""
    what, share = name.removesuffix("_s").split("_")
    return f"{'gap' if what == 'itl' else what.upper() if what != 'e2e' else 'request'} {share}"


def _table(found: Sizing, n_rows: int) -> Table:
    names = list(found.slo.limits)
    columns = [
        "<chips",
        "<layout",
        "<weights/KV",
        "<step",
        "replicas",
        *(_short(n) for n in names),
        "left",
        "USD/h",
        "USD/Mtok",
    ]
    rows = table(*columns, "<checked", first="")
    for i, choice in enumerate(found.choices[:n_rows]):
        d, r = choice.candidate.deployment, choice.candidate.replica
        replicas = f"{choice.n_replicas}" if not choice.split else f"{choice.n_prefill} + {choice.n_replicas}"
        usd = ("–" if v is None else three(v) for v in (choice.usd_per_h, choice.usd_per_mtok))
        rows.add_row(
            f"{i + 1}.", f"{choice.n_chips} × {d.hardware.id}", plan_label(d.plan) + (" split" if choice.split else ""),
            formats_of(d), f"{r.batch_tokens:,}", replicas, *(_time(choice, name) for name in names),
            percent(choice.headroom), *usd, _checked(choice, found),
        )  # fmt: skip
    return rows


def _time(choice: Choice, name: str) -> str:
    """As simulated where it was, else by the closed form."""
    return seconds(choice.simulated.get(name, choice.times.get(name)))


def _checked(choice: Choice, found: Sizing) -> str:
    if not choice.simulated:
        return "closed form"
    missed = found.slo.missed({n: choice.simulated[n] for n in found.slo.limits})
    return "simulated" if not missed else f"simulated: misses {', '.join(_short(n) for n in missed)}"


def _sentences(found: Sizing, n_rows: int) -> list[str]:
    lines = []
    kept = next((c for c in found.choices if _keeps(c, found)), None)
    if kept is None:
        lines.append(
            "None of those that were simulated keeps the SLO with the arrivals as they are: ask for more headroom."
        )
    else:
        lines.append(f"The cheapest that keeps it: {kept.label}.")
        lines.append(_bound(kept))
        if kept.n_replicas > kept.n_replicas_mean:
            lines.append(
                f"The mean rate alone would ask for {kept.n_replicas_mean} replicas, not {kept.n_replicas}: requests would "
                "wait through the busiest minutes."
            )
    smallest = found.smallest
    if smallest is not None and smallest is not kept:
        lines.append(f"The least memory in all: {smallest.label}.")
    pair = next((c for c in found.choices if c.split), None)
    one = next((c for c in found.choices if pair is not None and not c.split and _alike(c, pair)), None)
    if pair is not None and one is not None:
        lines.append(_pair(pair, one))
    if len(found.choices) > n_rows:
        lines.append(f"{len(found.choices) - n_rows} more keep it (--top); {found.n_tried:,} were tried.")
    return lines


def _keeps(choice: Choice, found: Sizing) -> bool:
    return not choice.simulated or not found.slo.missed({n: choice.simulated[n] for n in found.slo.limits})


def _bound(choice: Choice) -> str:
    words = [BOUNDS.get(b, _short(b) if "_" in b else b) for b in choice.bound.split(" | ")]
    what = " and ".join(dict.fromkeys(words))
    each = "A pair of pools" if choice.split else "A replica"
    return f"{each} does up to {three(choice.max_rate_per_s)}/s within it; {what} would not let it do more."


def _alike(a: Choice, b: Choice) -> bool:
    """Whether they stand on the same chips, in the same formats."""
    one, other = a.candidate.deployment, b.candidate.deployment
    return one.hardware.id == other.hardware.id and formats_of(one) == formats_of(other)


def _pair(pair: Choice, one: Choice) -> str:
    chip = pair.candidate.deployment.hardware.id
    if pair.n_chips == one.n_chips:
        return f"On {chip}, splitting prompts from answers takes as many chips as one pool: {pair.n_chips}."
    more = "more" if pair.n_chips > one.n_chips else "fewer"
    return f"On {chip}, splitting prompts from answers takes {more} chips than one pool: {pair.n_chips}, not {one.n_chips}."


def _dropped(found: Sizing) -> list[str]:
    """What was dropped, alike reasons together."""
    if not found.dropped:
        return []
    groups = Counter((d.hardware, d.why) for d in found.dropped)
    lines = ["", f"Dropped: {len(found.dropped)} of the chips, layouts and formats."]
    for (chip, why), n in groups.most_common(MOST_DROPPED):
        lines.append(f"  {chip}{'' if n == 1 else f' ({n})'}: {why}")
    if len(groups) > MOST_DROPPED:
        lines.append(f"  and {len(groups) - MOST_DROPPED} other reasons (--json lists all)")
    return lines


def show_jobs(
    spec: Model, load: Load, n: int, deadline_s: float | None, answers: Sequence[tuple[Deployment, Offline]]
) -> None:
    """A job on every chip and layout, the cheapest first."""
    by = "" if deadline_s is None else f" by a deadline of {_long(deadline_s)}"
    say(f"{spec.id}: {n:,} requests{by}, nobody waiting")
    say(f"requests: {load.said}")
    say()
    rows = table("<layout", "<weights/KV", "replicas", "time", "tok/s", "USD", "USD/Mtok", first="chips")
    for d, job in answers:
        usd = ("–" if v is None else three(v) for v in (job.usd, job.usd_per_mtok))
        rows.add_row(
            f"{job.n_chips} × {d.hardware.id}", plan_label(d.plan), formats_of(d), str(job.n_replicas), _long(job.seconds),
            three(job.tokens_per_s), *usd,
        )  # fmt: skip
    print_table(rows)
    say()
    d, job = answers[0]
    cost = "" if job.usd is None else f" for {three(job.usd)} USD"
    say(f"The cheapest: {job.n_chips} × {d.hardware.id} {plan_label(d.plan)}, done in {_long(job.seconds)}{cost}.")


def _long(value: float) -> str:
    """A long time: 7.5 h, 42 min, else seconds.

    >>> _long(27000.0), _long(2520.0), _long(12.0)
    ('7.5 h', '42 min', '12 s')
    """
    if value >= 3600.0:
        return f"{three(value / 3600.0)} h"
    return f"{value / 60.0:.0f} min" if value >= 120.0 else f"{value:.0f} s"
