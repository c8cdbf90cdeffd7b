"""The walkthrough: one self-contained page that goes from prefill to decode to the growing cache, for a model on a chip.

Its script computes nothing. Every figure on the page, at every setting of its sliders, is an answer of the library, written
down before (`slots`); the script only looks up which to show.
"""

from __future__ import annotations

from roofline.views.walkthrough.page import page

__all__ = ["page"]
