"""The proof: a tiny decoder in NumPy that does what the ledger counts, with a cache and without, and counts it itself.

    cache, counter, weights      what is kept, what is counted, what is drawn
    attention, latent, ffn       the arithmetic
    decoder                      a pass over new tokens
    kinds, bench, checks, proof  what is run, and what must agree

It takes from the library the records it runs and the formats they are stored in, and nothing of how work is counted; only
`checks`, `bench` and `proof` ask the ledger. The tests hold the ledger against it over random models and passes.
"""

from __future__ import annotations

from collections.abc import Callable

from roofline.errors import SpecError, shown
from roofline.evidence.reference.checks import Check
from roofline.evidence.reference.kinds import Kind, kind_named, kinds
from roofline.evidence.reference.proof import grown, proven
from roofline.evidence.reference.records import Growth, Proof, Saving, Verification
from roofline.specs.model import Model

__all__ = ["Check", "Growth", "Proof", "Saving", "Verification", "verify"]

MAX_TOKENS, MAX_PARAMS = 64, 2_000_000


def verify(
    *models: str | Model, n_tokens: int = 8, seed: int = 0, progress: Callable[[str], None] | None = None
) -> Verification:
    """Run tiny models with a cache and without, and hold what each pass did against the ledger.

    Parameters
    ----------
    *models : str or Model
        Kinds by name ("mha", "gqa", "mqa", "window", "chunks", "mla", "moe", "plain", "encoder-decoder", "cross"), or small
        models of your own; all kinds where none is given.
    n_tokens : int
        Tokens that each sequence generates, 1 to 64; the work's growth is shown up to 4 times as many [token].
    seed : int
        Of weights and prompts.
    progress : callable, optional
        Told the kind, before each.

    Returns
    -------
    Verification
        `passed`, `failed()` in sentences, `to_frame()`, `steps_frame()`, `growth()`.

    Notes
    -----
    Compared with ==: the FLOPs, weight bytes and cache bytes read and written of every op of every pass, prompts, decodes,
    chunks, shared beginnings, drafts and mixed passes alike. The bytes of experts are compared as the least, the mean and
    the most over all ways to route two tokens. Activations are not compared: what of them crosses memory is a kernel's
    choice. Two runs of one function may differ by rounding, whose bound is given with each.

    Examples
    --------
    >>> found = verify("gqa", n_tokens=2)
    >>> found.passed, found.proofs[0].total("flops") == found.proofs[0].total("flops", side="expected")
    (True, True)
    """
    if type(n_tokens) is not int or not 1 <= n_tokens <= MAX_TOKENS:
        raise SpecError(f"n_tokens: expected 1 to {MAX_TOKENS} tokens to generate, got {shown(n_tokens)}")
    if type(seed) is not int or seed < 0:
        raise SpecError(f"seed: expected a whole number from 0 on, got {shown(seed)}")
    chosen = [_kind(model) for model in models] or list(kinds().values())
    proofs = []
    for kind in chosen:
        if progress is not None:
            progress(kind.name)
        proofs.append(proven(kind, n_tokens=n_tokens, seed=seed))
    return Verification(proofs=tuple(proofs), written=grown(chosen[0], n_tokens=4 * n_tokens, seed=seed), seed=seed)


def _kind(model: str | Model) -> Kind:
    if isinstance(model, str):
        return kind_named(model)
    if not isinstance(model, Model):
        raise SpecError(f"verify(…): expected the name of a kind or a Model, got {shown(model)}")
    if model.n_params > MAX_PARAMS:
        raise SpecError(
            f"verify(…): {model.id} has {model.n_params:,} parameters; every product is done here in NumPy, so give a model "
            f"of at most {MAX_PARAMS:,}: the same layers, narrower"
        )
    return Kind(model.id, model.name, model)
