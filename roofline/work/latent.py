"""Latent attention: one cached vector a token for all heads, in two forms; its sparse variant, where an indexer picks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from roofline.ledger import Linear, Op, Row
from roofline.specs.matrix import Matrix
from roofline.specs.mixers import Latent
from roofline.work.attention import AttentionKernel, kv_bytes_per_token, scores_moved
from roofline.work.indexer import index_scores
from roofline.work.place import Place
from roofline.work.sight import ALL, Sight
from roofline.work.sums import Cheaper, Sum, SumName

__all__ = ["LatentForm", "latent_attention"]

LatentForm: TypeAlias = Literal["auto", "absorbed", "expanded"]


def latent_attention(mixer: Latent, at: Place, *, kernel: AttentionKernel, form: LatentForm) -> Iterator[Row]:
    """Rows of a latent attention layer (MLA).  [FLOP, B]

    Every token leaves a latent of R and a rotated key of r; keys and values of all N heads are products of the latent with
    k_b (R, N·p) and v_b (R, N·v). Per head and pass, with T new tokens after S and `pairs` visible:

        expanded     keys and values of all S + T tokens are made, then attended to as usual
                     2·(S + T)·R·(p + v)   +   2·pairs·(p + r + v)
        absorbed     k_b is multiplied into the query and v_b into the output; attention runs over the latents themselves
                     2·T·R·(p + v)         +   2·pairs·(2·R + r)

    "auto" takes for each part of a step the form with fewer FLOPs: expanded where S·R·(p + v) < pairs·(2·R − p − v). So a
    prompt is expanded and a decode absorbed, as engines do; with DeepSeek-V3's widths a chunk after a long past is absorbed
    below about 170 new tokens. `flops` is always that of the cheaper form; what another form adds is `extra_flops`.

        cache read   = Σ seen · (R + r) · bits/8        the same in both forms, and for any number of heads
        cache write  = Σ T · (R + r) · bits/8
        activations  expanded: keys and values made, N·(p + v) a token, are written and read

    With an `indexer` (DSA) each query attends to its top_k tokens only: pairs and reads are those of a window of top_k, and
    the indexer scores all of them first (`index_scores`).

    Notes
    -----
    Assumes norms and rotation cost 0 FLOP. Under an indexer T queries read min(S, T·(k − 1)) cached tokens, as if all their
    picks differed; at least, what one query picks. An engine may skip the indexer while S + T ≤ top_k; it is counted.

    References
    ----------
    DeepSeek-AI 2024, arXiv:2405.04434, §2.1 (MLA, absorption); arXiv:2512.02556 (DeepSeek-V3.2, DSA).

    Examples
    --------
    DeepSeek-V3 caches 576 elements a layer: 61 · 576 · 2 B = 70,272 B a token.

    >>> from roofline.specs.catalog import model
    >>> from roofline.specs.precision import Precision
    >>> v3 = model("deepseek-v3")
    >>> mixer = v3.layer_kinds()[0][1].mixer
    >>> 61 * kv_bytes_per_token(mixer, numerics=Precision(kv="bf16").of(v3))
    70272.0
    """
    *matrices, out = (m for m in mixer.matrices(at.d_model) if not m.role.startswith("index_"))
    forms = _Forms(mixer, at, form)
    for matrix in matrices:
        if matrix.role in ("k_b", "v_b"):
            yield _made_again(at.product(matrix, m=at.tokens + forms.again), matrix, forms)
        else:
            yield at.product(matrix, n_launch=0.0 if matrix.role == "kv_a" else 1.0)
    yield from index_scores(mixer, at)
    yield _core(mixer, at, forms, kernel=kernel)
    yield at.product(out)


@dataclass(frozen=True, slots=True)
class _Forms:
    """Sums over the parts of a pass that run expanded, and over those that run absorbed: as asked for, or cheapest."""

    mixer: Latent
    at: Place
    form: LatentForm

    @property
    def sight(self) -> Sight:
        """What a query attends to: all, or its top_k."""
        return ALL if self.mixer.indexer is None else Sight(self.mixer.indexer.top_k)

    def over(self, name: SumName, sight: Sight, *, expanded: bool, cheapest: bool = False) -> Linear:
        """A sum over the parts that run in one of the forms."""
        total = Sum(name, sight, self.at.stream)
        if self.form != "auto" and not cheapest:
            return total.linear if (self.form == "expanded") == expanded else Linear()
        x = self.mixer
        both = x.d_nope + x.d_value
        prices = (float(x.d_latent * both), float(2 * x.d_latent - both))
        return Cheaper(total, "expanded" if expanded else "absorbed", self.sight, *prices).linear

    @property
    def again(self) -> Linear:
        """Cached tokens whose keys and values are made again."""
        return self.over("seen", ALL, expanded=True)

    @property
    def again_cheapest(self) -> Linear:
        """The same in the cheaper form."""
        return self.over("seen", ALL, expanded=True, cheapest=True)

    def core_flops(self, name: SumName, sight: Sight, *, cheapest: bool = False) -> Linear:
        """2·N·(p + r + v) a pair expanded, 2·N·(2·R + r) absorbed, of pairs or of a full square."""
        x = self.mixer
        wide = self.over(name, sight, expanded=True, cheapest=cheapest) * (
            2.0 * x.n_heads * (x.d_nope + x.d_rope + x.d_value)
        )
        return wide + self.over(name, sight, expanded=False, cheapest=cheapest) * (
            2.0 * x.n_heads * (2 * x.d_latent + x.d_rope)
        )


def _made_again(row: Row, matrix: Matrix, forms: _Forms) -> Row:
    """k_b or v_b: its FLOPs in the cheaper form, and what the form asked for adds (less, where its attention adds more).

    Expanded, a latent goes in and every head's part comes out, for all tokens; absorbed, every head's part of the query or
    of the output is turned into a latent's width or back.
    """
    x, per_row = forms.mixer, 2.0 * matrix.d_in * matrix.d_out
    expanded = forms.over("tokens", ALL, expanded=True) + forms.again
    absorbed = forms.over("tokens", ALL, expanded=False)
    moved = expanded * (matrix.d_in + matrix.d_out) + absorbed * (matrix.d_out + x.n_heads * x.d_latent)
    return replace(
        row,
        flops=(forms.at.tokens + forms.again_cheapest) * per_row,
        extra_flops=(forms.again - forms.again_cheapest) * per_row,
        act_bytes=moved * forms.at.numerics.activation_bytes,
    )


def _core(x: Latent, at: Place, forms: _Forms, *, kernel: AttentionKernel) -> Row:
    """Attention over latents, or over keys and values made of them."""
    n, act = float(x.n_heads), at.numerics.activation_bytes
    tokens, per_token = at.tokens, kv_bytes_per_token(x, numerics=at.numerics)
    flops = forms.core_flops("pairs", forms.sight, cheapest=True)
    formed: tuple[SumName, Sight] = ("square", ALL) if kernel == "eager" else ("pairs", forms.sight)
    drawn = forms.over("picked" if x.indexer else "seen", forms.sight, expanded=False)
    wide = forms.over("tokens", ALL, expanded=True) + forms.again
    narrow = forms.over("tokens", ALL, expanded=False)
    expanded_act = wide * (n * (x.d_nope + x.d_rope + x.d_value)) + forms.over("tokens", ALL, expanded=True) * (
        n * (x.d_nope + x.d_rope + x.d_value)
    )
    seen = Sum("seen", forms.sight, at.stream).linear
    return Op(
        name=f"{at.prefix}attention",
        kind="attention",
        repeat=at.repeat,
        shape=f"{x.n_heads} heads over latents of {x.d_latent} + {x.d_rope}, or over {x.d_nope} + {x.d_rope} made of them",
        m=tokens,
        flops=flops,
        extra_flops=forms.core_flops(*formed) - flops,
        row_flops=(seen + tokens) * (2.0 * (2 * x.d_latent + x.d_rope)),
        score_elements=Sum(formed[0], formed[1], at.stream).linear * n,
        kv_read_bytes=(drawn + forms.again) * per_token,
        kv_read_bytes_min=Sum("agreed" if x.indexer else "held", forms.sight, at.stream).linear * per_token,
        kv_write_bytes=tokens * per_token,
        act_bytes=(expanded_act + narrow * (n * (2 * x.d_latent + x.d_rope))) * act
        + scores_moved(Sum(formed[0], formed[1], at.stream).linear, x.n_heads, kernel),
        store_dtype=at.numerics.kv.name,
        compute_dtype=at.numerics.dense,
    )
