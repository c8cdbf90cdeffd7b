"""What is asserted of every kind: that a cache changes nothing but the work, and that the ledger counts that work.

Every pass is run twice, on what is cached and from the first token on. Both must give the same logits; what each did must be
what `count` says of it, op by op.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np

from roofline.evidence.reference.attention import softmax
from roofline.evidence.reference.bench import EPS, N_PROMPT, Bench, Text, changed, difference
from roofline.evidence.reference.checks import Check
from roofline.evidence.reference.counter import Array, Counter
from roofline.evidence.reference.decoder import Chunk, Context, Decoder, Pass
from roofline.evidence.reference.ffn import experts
from roofline.evidence.reference.kinds import Kind
from roofline.evidence.reference.records import Proof, Saving
from roofline.specs.ffns import Moe
from roofline.specs.mixers import Attention, Latent
from roofline.work.count import count
from roofline.work.step import Seqs

__all__ = ["BRACKET", "grown", "proven"]

MOST_ROUTINGS = 4096
BRACKET = ("weight_bytes_min", "weight_bytes", "weight_bytes_max")


def proven(kind: Kind, *, n_tokens: int = 8, seed: int = 0) -> Proof:
    """Everything that is asserted of a kind.

    Parameters
    ----------
    kind : Kind
    n_tokens : int
        Tokens each of two sequences generates after a prompt of 4.
    seed : int
        Of weights and prompts.

    Notes
    -----
    Two runs of one function in float64 round differently: a product of inner length k is off by at most k·ε of its terms,
    and a number passes products of Σk on its way to a logit. So two runs may differ by 2·Σk·ε·max|logit|, to first order,
    where norms keep what is added at unit scale, as they do here. Stale keys or values are off by 10⁹ times that.

    Examples
    --------
    >>> from roofline.evidence.reference.kinds import kind_named
    >>> found = proven(kind_named("mqa"), n_tokens=2)
    >>> found.passed, found.worst("logits").found < 1e-13
    (True, True)
    """
    bench = Bench(kind, seed=seed)
    sequences = [Text.of(bench, i, n_tokens=N_PROMPT) for i in range(2)]
    steps = tuple(_generated(bench, sequences, n_tokens=n_tokens))
    _mixed_in(bench, sequences)
    _in_chunks(bench)
    if not kind.model.remembers:
        _after_one_beginning(bench)
    if any(isinstance(mixer, Latent) for _, layer in kind.model.layer_kinds() for mixer in layer.mixers):
        _in_both_forms(bench)
    bench.checks.extend(_over_all_routings(bench))
    change = _with_another_last_token(bench)
    return Proof.of(bench, steps=steps, unmasked_change=change)


def grown(kind: Kind, *, n_tokens: int, seed: int = 0) -> Proof:
    """One sequence of a kind, written token by token from its first: how the work grows, on the cache and afresh.

    Of n tokens, products with weights are n on the cache and n·(n + 1)/2 afresh; pairs of a query and a key it sees
    n·(n + 1)/2 and n·(n + 1)·(n + 2)/6.
    """
    bench = Bench(kind, seed=seed)
    return Proof.of(bench, steps=tuple(_generated(bench, [Text.of(bench, 0, n_tokens=1)], n_tokens=n_tokens)))


def _generated(bench: Bench, sequences: Sequence[Text], *, n_tokens: int) -> Iterator[Saving]:
    """Prompt and decodes of the batch, each step also without any cache."""
    for step in range(1, n_tokens + 1):
        name = f"step {step}"
        before = [cache.copied() for s in sequences for cache in s.context.caches]
        cached = bench.run(f"{name} on the cache", *(s.next_chunk() for s in sequences))
        afresh = [s.whole(bench) for s in sequences]
        uncached = bench.run(f"{name} afresh", *afresh, form="expanded")
        bench.same(name, "logits", cached.logits, uncached.logits, cached, uncached)
        after = [cache for s in sequences for cache in s.context.caches]
        bench.checks.append(Check(run=name, what="old cache entries", found=changed(before, after), expected=0.0))
        kept, made = (_rows(contexts) for contexts in ([s.context for s in sequences], [c.context for c in afresh]))
        bench.same(name, "keys and values", kept, made, cached, uncached)
        yield _saving(step, len(sequences[0].tokens), cached.counter, uncached.counter)
        for s, logits in zip(sequences, cached.logits, strict=True):
            s.tokens = np.append(s.tokens, np.argmax(logits[-1]))


def _saving(step: int, context_tokens: int, cached: Counter, uncached: Counter) -> Saving:
    def split(counter: Counter) -> tuple[int, int, int]:
        attention = sum(work.flops for op, work in counter.work.items() if op.endswith("attention"))
        everything, head = sum(work.flops for work in counter.work.values()), counter.work["lm_head"].flops
        return everything, everything - attention - head, attention

    (a, b, c), (x, y, z) = split(cached), split(uncached)
    return Saving(
        step=step, context_tokens=context_tokens, cached_flops=a, uncached_flops=x, cached_product_flops=b,
        uncached_product_flops=y, cached_attention_flops=c, uncached_attention_flops=z,
    )  # fmt: skip


def _mixed_in(bench: Bench, sequences: Sequence[Text]) -> None:
    """A decode of each sequence beside a prompt of another, in one pass; then three drafts of each at once."""
    newcomer = Text.of(bench, 1, n_tokens=3)
    together = [*sequences, newcomer]
    mixed = bench.run("decodes beside a prompt", *(s.next_chunk() for s in together))
    alone = bench.run("the same afresh", *(s.whole(bench) for s in together), form="expanded")
    bench.same("decodes beside a prompt", "logits", mixed.logits, alone.logits, mixed, alone)
    for s in sequences:
        s.tokens = np.append(s.tokens, bench.words(3))
    drafts = bench.run("3 drafts at once", *(s.next_chunk(n_logits=3) for s in sequences))
    alone = bench.run("the same afresh", *(s.whole(bench, n_logits=3) for s in sequences), form="expanded")
    bench.same("3 drafts at once", "logits", drafts.logits, alone.logits, drafts, alone)


def _in_chunks(bench: Bench) -> None:
    """A prompt of 7 in chunks of 3, 3 and 1, of which only the last wants logits."""
    s = Text.of(bench, 0, n_tokens=7)
    for i, size in enumerate((3, 3)):
        bench.run(f"chunk {i + 1}", s.next_chunk(size, n_logits=0))
    last = bench.run("chunk 3", s.next_chunk())
    whole = bench.run("the prompt at once", s.whole(bench), form="expanded")
    bench.same("chunk 3", "logits", last.logits, whole.logits, last, whole)


def _after_one_beginning(bench: Bench) -> None:
    """Two sequences after one beginning of 6, which the cache holds once."""
    first = Text.of(bench, 0, n_tokens=6)
    bench.run("a beginning", first.next_chunk(n_logits=0))
    both = [Text(first.context.fork(), np.append(first.tokens, bench.words(2)), ()) for _ in range(2)]
    hit = bench.run("two after one beginning", *(s.next_chunk() for s in both), n_shared=6)
    whole = bench.run("the same afresh", *(s.whole(bench) for s in both), form="expanded")
    bench.same("two after one beginning", "logits", hit.logits, whole.logits, hit, whole)


def _in_both_forms(bench: Bench) -> None:
    """A prompt, a chunk and a decode, each absorbed and expanded: one function, and "auto" is the cheaper."""
    for name, n_past, n_new in (("a prompt", 0, 4), ("a chunk", 6, 3), ("a decode", 9, 1)):
        s = Text.of(bench, 0, n_tokens=n_past + n_new)
        if n_past:
            bench.forms["absorbed"].run(s.next_chunk(n_past, n_logits=0))
        other = Text(s.context.fork(), s.tokens, s.inputs)
        absorbed = bench.run(f"{name}, absorbed", s.next_chunk())
        expanded = bench.run(f"{name}, expanded", other.next_chunk(), form="expanded")
        bench.same(f"{name}, both forms", "logits", absorbed.logits, expanded.logits, absorbed, expanded)
        ledger = count(bench.kind.model, Seqs(n_seq=1, n_new=n_new, n_past=n_past))
        cheaper = min(done.counter.total("flops") for done in (absorbed, expanded))
        bench.checks.append(
            Check(run=f"{name}, cheaper form", what="flops", found=cheaper, expected=float(ledger.flops))
        )


def _over_all_routings(bench: Bench, n_rows: int = 2) -> Iterator[Check]:
    """Every way two rows may be sent to k of E experts: the least, the mean and the most bytes that one layer reads.

    Where there are too many ways to try, or several kinds of mixtures, there is only what every pass is held to: between
    the least and the most.
    """
    mixtures = [w for w in bench.forms["absorbed"].weights.layers if isinstance(w.layer.ffn, Moe)]
    x = mixtures[0].layer.ffn if len({w.layer for w in mixtures}) == 1 else None
    if not isinstance(x, Moe) or comb(x.n_experts, x.n_active_experts) ** n_rows > MOST_ROUTINGS:
        return
    picks = np.array(list(combinations(range(x.n_experts), x.n_active_experts)))
    read, rows = [], np.ones((n_rows, x.d_latent or bench.kind.model.d_model))
    for routing in product(range(len(picks)), repeat=n_rows):
        counter, chosen = Counter(kv_element_bytes=0.0), picks[list(routing)]
        experts(counter, mixtures[0], x, rows, chosen, softmax(np.zeros(chosen.shape)))
        read.append(counter.total("weight_bytes"))
    ops = [op for op in count(bench.kind.model, Seqs(n_seq=1, n_new=n_rows)).ops if op.kind == "expert"]
    mean = float(sum(map(Fraction, read)) / len(read))
    for name, found in zip(BRACKET, (min(read), mean, max(read)), strict=True):
        limit = 8 * EPS * mean if name == "weight_bytes" else 0.0  # a power is taken through logarithms
        told = float(sum(getattr(op, name) for op in ops))
        run = f"all {len(read)} routings of {n_rows} tokens"
        yield Check(run=run, op="experts", what=f"{name} of experts", found=found, expected=told, limit=limit)


def _with_another_last_token(bench: Bench) -> float | None:
    """Keys and values of all tokens but the last, when the last is another: bit for bit the same; not without the mask.

    Where experts are picked, others may multiply together, and round differently.
    """
    model, tokens = bench.kind.model, bench.words(8)
    other = np.append(tokens[:-1], (tokens[-1] + 1) % model.vocab_size)
    inputs = Text.of(bench, 0, n_tokens=1).inputs

    def moved(decoder: Decoder) -> tuple[float, Pass, float]:
        contexts = [decoder.start(), decoder.start()]
        done = [decoder.run(Chunk(c, t, 1, inputs)) for c, t in zip(contexts, (tokens, other), strict=True)]
        old = [[row[:-1] for row in _rows([context])] for context in contexts]
        scale = max((float(np.abs(x).max()) for x in old[0] if x.size), default=0.0)
        return max((difference(a, b) for a, b in zip(*old, strict=True)), default=0.0), done[0], scale

    found, done, scale = moved(bench.forms["expanded"])
    regroups = any(isinstance(layer.ffn, Moe) for _, layer in model.layer_kinds())
    limit = 2 * done.counter.chain * EPS * scale if regroups else 0.0
    bench.checks.append(
        Check(run="another last token", what="old keys and values", found=found, expected=0.0, limit=limit)
    )
    if not all(isinstance(layer.mixer, Attention) for _, layer in model.layer_kinds()):
        return None
    return moved(Decoder(model, masked=False, seed=bench.seed))[0]


def _rows(contexts: Sequence[Context]) -> list[Array]:
    """Everything the caches of these sequences hold."""
    return [row for context in contexts for cache in context.caches for row in cache.rows]
