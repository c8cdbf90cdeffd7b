"""The report before a launch: one content, written as Markdown or as one page of HTML."""

from __future__ import annotations

from roofline.views.report.content import brief, report_of, states_of
from roofline.views.report.html import page
from roofline.views.report.markdown import markdown

__all__ = ["brief", "markdown", "page", "report_of", "states_of"]
