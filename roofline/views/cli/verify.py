"""`roofline verify`: a tiny decoder does what the ledger counts, with a cache and without, and counts it itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.evidence.reference import MAX_TOKENS, Proof, Verification
from roofline.evidence.reference import verify as verified
from roofline.evidence.reference.kinds import KIND_NAMES
from roofline.evidence.reference.proof import BRACKET
from roofline.views.cli.common import Json, print_json, print_table, say, table, whole
from roofline.views.cli.words import percent, three
from roofline.views.progress import progress

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["verify"]

WIDTH, MOST_SAID = 96, 8


def verify(
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help=f"Only this kind, repeatable: {', '.join(KIND_NAMES)}.")
    ] = None,
    tokens: Annotated[str, typer.Option("--tokens", help="Tokens each sequence writes after its prompt of 4.")] = "8",
    seed: Annotated[str, typer.Option("--seed", help="Of the weights and prompts.")] = "0",
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Every product of every pass: its shapes, FLOP and bytes.")
    ] = False,
    json: Json = False,
) -> None:
    """Prove the counts: run tiny models in NumPy with a cache and without, and compare.

    Exit code 1 where a check fails: roofline verify --kind mla -v
    """
    n_tokens = whole(tokens, name="--tokens", most=MAX_TOKENS)
    kinds = list(dict.fromkeys(kind or ()))
    with progress(len(kinds or KIND_NAMES)) as step:
        found = verified(*kinds, n_tokens=n_tokens, seed=whole(seed, name="--seed", least=0), progress=step)
    if json:
        print_json("verify", found.to_dict() | ({"passes": list(_passes(found))} if verbose else {}))
    else:
        _show(found, n_tokens=n_tokens, verbose=verbose)
    if not found.passed:
        raise typer.Exit(1)


def _passes(found: Verification) -> Iterator[dict[str, object]]:
    for proof in found.proofs:
        for run in proof.runs:
            products = [asdict(shape) for shape in run.shapes()]
            yield {"kind": proof.kind, "pass": run.name, "products": products, "kv_read_bytes": run.kv_read_bytes,
                   "kv_write_bytes": run.kv_write_bytes}  # fmt: skip


def _show(found: Verification, *, n_tokens: int, verbose: bool) -> None:
    if verbose:
        for proof in found.proofs:
            _show_passes(proof)
    written = "1 token" if n_tokens == 1 else f"{n_tokens} tokens"
    scene = (
        f"A tiny decoder in NumPy (seed {found.seed}), on a cache and afresh: two prompts of 4, {written} written; chunks, "
        "drafts, decodes beside a prompt, two sequences after one beginning. What it did, and what the ledger says of it:"
    )
    say(fill(scene, WIDTH))
    say()
    print_table(_kinds(found), spare=("rounding",))
    say()
    say(f"{found.written.kind}: one sequence written from its first token, FLOP of each")
    print_table(_steps(found))
    say()
    for sentence in _sentences(found):
        say(fill(sentence, WIDTH))


def _kinds(found: Verification) -> Table:
    rows = table("logits off by", "rounding", "FLOP counted", "ledger", "B counted", "ledger", "<", first="kind")
    for proof in found.proofs:
        said = proof.to_dict()
        sums = (said[f"{side}_{what}"] for what in ("flops", "bytes") for side in ("counted", "ledger"))
        differ = (f"{said['logit_difference']:.1e}", f"< {said['logit_bound']:.0e}")
        verdict = "OK" if proof.passed else "FAIL"
        rows.add_row(proof.kind, *differ, *(f"{value:,.0f}" for value in sums), verdict)
    return rows


def _steps(found: Verification) -> Table:
    """The first tokens, then every one at a power of two, and all."""
    rows, steps = table("on the cache", "afresh", "saved", first="token"), found.written.steps
    for step in steps:
        if step.step <= 4 or step.step & (step.step - 1) == 0:
            saved = step.saved_flops / step.uncached_flops
            rows.add_row(f"{step.step}", f"{step.cached_flops:,}", f"{step.uncached_flops:,}", percent(saved))
    cached, uncached = (sum(getattr(s, f"{side}_flops") for s in steps) for side in ("cached", "uncached"))
    rows.add_row(f"all {len(steps)}", f"{cached:,}", f"{uncached:,}", percent(1 - cached / uncached))
    return rows


def _sentences(found: Verification) -> Iterator[str]:
    """How the work grows, why a cache may be kept, what experts read, and whether all of it holds."""
    last = found.growth()[-1]
    yield (
        f"Twice the tokens ({last.n_tokens // 2} to {last.n_tokens}): products with weights × "
        f"{three(last.cached_products_grew)} on the cache, O(n), and × {three(last.uncached_products_grew)} afresh, O(n²); "
        f"attention × {three(last.cached_attention_grew)}, O(n²), and × {three(last.uncached_attention_grew)}, O(n³)."
    )
    if found.holds("old entries changed", "old keys and values", "keys and values"):
        yield _kept(found)
    if found.holds(*(f"{what} of experts" for what in BRACKET)):
        yield "Bytes of experts: the least, mean and most over all ways to route two tokens are the ledger's."
    failed = found.failed()
    for sentence in failed[:MOST_SAID]:
        yield f"FAIL {sentence}"
    if failed:
        yield f"{len(failed):,} of {found.n_checks:,} checks failed."
    else:
        yield f"All {found.n_checks:,} checks of {found.n_passes:,} passes hold; FLOPs and bytes are equal, op by op."


def _kept(found: Verification) -> str:
    """Why keys and values may be kept, with how far they move where they may not."""
    again, other = (max(p.worst(w).found for p in found.proofs) for w in ("keys and values", "old keys and values"))
    without = [proof.unmasked_change for proof in found.proofs if proof.unmasked_change is not None]
    mask = f" Without the causal mask they would move by up to {max(without):.2g}." if without else ""
    return (
        "Old keys and values stay: no bit of a cached entry changed as the cache grew; with another last token they "
        f"move by {other:.2g}; made again afresh they differ by {again:.2g} at most.{mask}"
    )


def _show_passes(proof: Proof) -> None:
    """Every pass of a kind, a line for the products of one name."""
    say(f"{proof.kind}: {proof.title}")
    for run in proof.runs:
        say()
        say(f"{run.name}   cache: {run.kv_read_bytes:,.0f} B read, {run.kv_write_bytes:,.0f} B written")
        rows = table("", "<shapes", "FLOP", "weight bytes", first="product")
        for shape in run.shapes():
            sizes = f"{shape.left} × {shape.right} → {shape.out}"
            name = shape.op if shape.name == shape.op else f"{shape.op}: {shape.name}"
            rows.add_row(name, f"{shape.n_products} of", sizes, f"{shape.flops:,}", f"{shape.weight_bytes:,.0f}")
        print_table(rows)
    say()
