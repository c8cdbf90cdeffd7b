"""The shipped efficiencies and folds are what `roofline calibrate --shipped` makes of the packaged measurements."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from roofline.evidence.calibration.shipped import EFFICIENCIES, make, predicted
from roofline.evidence.measurements import measurements

pytest.importorskip("scipy")

CLOSE = 5e-3  # the last steps of an optimiser differ from one build of its library to the next


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value of a nest of dictionaries, with where it is."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def test_the_shipped_file_is_what_the_command_gives() -> None:
    """From rows in another order, too: the command sorts them first. Some ninety seconds."""
    rows = list(measurements())
    random.Random(5).shuffle(rows)
    table, found = make(rows)

    shipped = dict(leaves(json.loads(EFFICIENCIES.read_text(encoding="utf-8"))))
    made = dict(leaves(table))
    assert made.keys() == shipped.keys()
    off = {
        path: (made[path], told)
        for path, told in shipped.items()
        if made[path] != (pytest.approx(told, rel=CLOSE, abs=1e-15) if isinstance(told, float) else told)
    }
    assert off == {}

    folds = {(p.regime, p.row): p for p in predicted()}
    assert {(p.regime, p.row) for p in found} == folds.keys()
    assert len(found) == len(folds)
    far = [
        (p.regime, p.row, p.predicted, told.predicted)
        for p in found
        if (told := folds[p.regime, p.row])
        and (p.predicted, p.floor) != pytest.approx((told.predicted, told.floor), rel=CLOSE)
    ]
    assert far == []
