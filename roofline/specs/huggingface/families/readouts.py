"""What stands after an encoder's last layer, by the class the config names first in `architectures`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TypeAlias

from roofline.errors import Unsupported, shorten
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.common import Shape, n_labels, tied
from roofline.specs.layers import Norm
from roofline.specs.towers import Product

__all__ = ["Readouts", "architecture", "readout"]

Readouts: TypeAlias = dict[str, tuple[str, ...]]

_ENDING = re.compile(r".*?(For[A-Z]\w*|(?:With)?LMHeadModel|EncoderModel|MTModel|Model)")
_ONCE = ("pooler", "dense", "pair", "choice", "labels")
_WIDTHS = {"pair": 2, "choice": 1, "detected": 1}


def architecture(c: Config, *, known: Collection[str], absent: str) -> str:
    """Which of the `known` endings the first of `architectures` has; `absent` where the config names none.

    A class is called after its family and what it is for: BertForMaskedLM, T5EncoderModel, BartModel.
    """
    names = c.items("architectures", kind=str, absent=None, null=None) or []
    if not names:
        return absent
    ending = _ENDING.fullmatch(names[0])
    if ending is None or ending[1] not in known:
        raise Unsupported(
            f"{c.place('architectures')}: the class {shorten(names[0])} is not supported; "
            f"of this family are: …{', …'.join(known)}"
        )
    return ending[1]


def readout(
    c: Config, readouts: Readouts, *, d_model: int, vocab: int, norm: Norm, d_words: int | None = None,
    bias: bool = True, words_bias: bool = True, second_bias: bool = False, normed: tuple[str, ...] = ("transform",),
) -> Shape:  # fmt: skip
    """The fields `readout` and `vectors` of the class: the parts that its ending has, in order.

    Of a sequence's first token: pooler, dense (D, D); pair, choice, labels classify it. Of every token: transform, with a
    norm, and words, the token table read backwards; detect and detected (ELECTRA); tags. `bias` is that of dense and
    transform; a `second_bias` of words is stored where the table is not tied.
    """
    d_words = d_words or d_model
    parts = readouts[architecture(c, known=readouts, absent="Model")]
    n = n_labels(c) if {"labels", "tags"} & set(parts) else 1
    widths = _WIDTHS | {"labels": n, "tags": n, "transform": d_words}
    products = [
        Product(
            name=part, d_in=d_model, d_out=widths.get(part, d_model), once=part in _ONCE,
            bias=bias or part not in ("dense", "transform"),
        )
        for part in parts if part != "words"
    ]  # fmt: skip
    vectors = {f"{part}_norm": norm.n_params(widths.get(part, d_model)) for part in parts if part in normed}
    if "words" in parts:
        one_table = tied(c, by_default=True)
        products.append(Product(name="words", d_in=d_words, d_out=vocab, bias=words_bias, tied=one_table))
        if second_bias and not one_table:
            vectors["second_bias"] = vocab
    return {"readout": tuple(products), "vectors": vectors}
