"""The tensors of one block of a GGUF file, each taken once, with the matrix roles they make up.

What a record says must come out at what the file holds, to the element: a tensor nobody takes is an error, and so is a
matrix that its tensors do not make up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from roofline.dtypes import format_named
from roofline.errors import SpecError, Unsupported, shorten
from roofline.specs.gguf.header import Tensor

__all__ = ["Bag"]

# Tables made of the config, buffers that balance load, scales of NVFP4 tensors: in the file, but no parameters.
_NO_PARAMETERS = (
    "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight", "attn_rot_embd.weight",
    "exp_probs_b.bias", "exp_probs_b", ".scale", ".input_scale",
)  # fmt: skip


class Bag:
    """Tensors by name, after a prefix such as "blk.3."; `where` names file and block, for errors."""

    def __init__(self, tensors: Mapping[str, Tensor], *, where: str) -> None:
        self._where = where
        self._left = {name: t for name, t in tensors.items() if not name.endswith(_NO_PARAMETERS)}
        self.beside = [t for name, t in tensors.items() if name.endswith(_NO_PARAMETERS)]
        self.roles: dict[str, list[Tensor]] = {}
        self.vectors: list[Tensor] = []

    def has(self, name: str) -> bool:
        """Whether a tensor of that name is here, not yet taken."""
        return name in self._left

    def matrix(self, name: str, *roles: str, d_in: int | None = None) -> Tensor:
        """Take a tensor that is a matrix, or a part of one, or several side by side: `roles` are what it makes up."""
        tensor = self._take(name)
        if len(tensor.dims) < 2 and roles != ("shared_scale",):
            raise SpecError(f"{self._where}{name}: one dimension; expected a matrix")
        if d_in is not None and tensor.dims[0] != d_in:
            raise SpecError(f"{self._where}{name}: rows of {tensor.dims[0]}; expected {d_in}")
        for role in roles:
            self.roles.setdefault(role, []).append(tensor)
        return tensor

    def vector(self, name: str) -> int:
        """Take a tensor that is no matrix: how many elements it has."""
        tensor = self._take(name)
        self.vectors.append(tensor)
        return tensor.n_elements

    def bias(self, name: str) -> bool:
        """Take a bias where there is one."""
        there = self.has(name)
        if there:
            self.vector(name)
        return there

    def formats(self) -> dict[str, str]:
        """The number format of each role; a mix where its parts differ."""
        return {role: format_of(tensors) for role, tensors in self.roles.items()}

    def n_elements(self, *roles: str) -> int:
        """Elements of what makes up these roles, or of everything taken; a tensor of several roles once."""
        chosen = [self.roles[role] for role in roles] if roles else [*self.roles.values(), self.vectors]
        return sum(t.n_elements for t in {t.name: t for tensors in chosen for t in tensors}.values())

    def together(self) -> list[tuple[str, ...]]:
        """The roles, those made up of one tensor together."""
        sharing: dict[tuple[str, ...], list[str]] = {}
        for role, tensors in self.roles.items():
            sharing.setdefault(tuple(t.name for t in tensors), []).append(role)
        return [tuple(roles) for roles in sharing.values()]

    def close(self) -> None:
        """Raise where something was left."""
        if self._left:
            names = ", ".join(shorten(name, 40) for name in list(self._left)[:3])
            raise Unsupported(f"{self._where}{names}: not a tensor this version counts ({len(self._left)} in all)")

    def _take(self, name: str) -> Tensor:
        if name not in self._left:
            raise SpecError(f"{self._where}{name}: missing; this tensor is required")
        return self._left.pop(name)


def format_of(tensors: Iterable[Tensor]) -> str:
    """The format of tensors that make up one thing: their type, or a mix of so many bits an element."""
    parts = list(tensors)
    kinds = {t.kind for t in parts}
    if len(kinds) == 1:
        return format_named(kinds.pop()).name
    bits = 8 * sum(t.n_bytes for t in parts) / sum(t.n_elements for t in parts)
    return f"mixed-{bits:.15f}".rstrip("0").rstrip(".") + "bit"
