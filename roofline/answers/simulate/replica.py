"""What the scheduler of one replica goes by."""

from __future__ import annotations

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
    """

    kv_tokens: int
    page_tokens: int = 16
    batch_tokens: int = 2048
    max_seqs: int = 256
    max_context_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("kv_tokens", "page_tokens", "batch_tokens", "max_seqs"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SpecError(f"Replica({name}): expected a whole number of at least 1, got {shown(value)}")
        if self.kv_tokens < self.page_tokens:
            raise SpecError(f"Replica(kv_tokens): {self.kv_tokens} tokens are less than a page of {self.page_tokens}")

    @property
    def n_pages(self) -> int:
        """Whole pages of the cache."""
        return self.kv_tokens // self.page_tokens
