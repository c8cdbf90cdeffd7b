"""What the records of answers share: a flat dict, and a table of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from roofline.answers.estimates import known_of
from roofline.specs.deployment import Deployment

__all__ = ["Answer", "as_frame", "evidence_of"]


class Answer:
    """What the records of these answers share."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        return as_frame(self.to_dict())


def as_frame(given: Mapping[str, Any]) -> Any:
    """One row a point of what broadcasts, as a pandas DataFrame."""
    import pandas as pd

    columns = np.broadcast_arrays(*(np.asarray(v, dtype=object if v is None else None) for v in given.values()))
    return pd.DataFrame({name: c.ravel() for name, c in zip(given, columns, strict=True)})


def evidence_of(deployment: Deployment) -> str:
    """What stands behind the times, in words."""
    return known_of(deployment).said
