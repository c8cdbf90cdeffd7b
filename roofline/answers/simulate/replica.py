"""What the scheduler of one replica goes by."""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline.errors import SpecError, shown

__all__ = ["Replica"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What the scheduler of one replica goes by.

    Attributes
    ----------
    kv_tokens : int
        Tokens the cache holds, in whole pages of `page_tokens` [token].
    batch_tokens : int
        Most tokens of a step, decodes among them [token].
    max_seqs : int
        Most sequences that run at once [1].
    max_context_tokens : int or None
        The model's own limit [token].
    prefix_caching : bool
        Whether beginnings that were read stay in the free pages for others that begin alike.
    tier_tokens : int
        Tokens of beginnings that a second memory holds, behind the cache; 0: there is none [token].
    tier_tokens_per_s : float or None
        How fast they come back from it: bytes/s of the link over bytes of a token [token/s].
    """

    kv_tokens: int
    page_tokens: int = 16
    batch_tokens: int = 2048
    max_seqs: int = 256
    max_context_tokens: int | None = None
    prefix_caching: bool = False
    tier_tokens: int = 0
    tier_tokens_per_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("kv_tokens", "page_tokens", "batch_tokens", "max_seqs"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SpecError(f"Replica({name}): expected a whole number of at least 1, got {shown(value)}")
        if self.kv_tokens < self.page_tokens:
            raise SpecError(f"Replica(kv_tokens): {self.kv_tokens} tokens are less than a page of {self.page_tokens}")
        self._check_tier()

    def _check_tier(self) -> None:
        if not isinstance(self.tier_tokens, int) or isinstance(self.tier_tokens, bool) or self.tier_tokens < 0:
            raise SpecError(f"Replica(tier_tokens): expected a whole number, 0 for none, got {shown(self.tier_tokens)}")
        rate = self.tier_tokens_per_s
        if rate is not None and not 0.0 < rate < math.inf:
            raise SpecError(f"Replica(tier_tokens_per_s): expected a finite rate above 0, got {shown(rate)}")
        if self.tier_tokens and not self.prefix_caching:
            raise SpecError(
                "Replica(tier_tokens): a tier holds beginnings that are cached; set prefix_caching=True too"
            )
        if self.tier_tokens and rate is None:
            raise SpecError("Replica(tier_tokens_per_s): expected how fast a tier is read, got none; say so beside it")

    @property
    def n_pages(self) -> int:
        """Whole pages of the cache."""
        return self.kv_tokens // self.page_tokens
