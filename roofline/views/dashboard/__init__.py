"""A dashboard for Grafana with what is predicted drawn beside what is measured."""

from __future__ import annotations

from roofline.views.dashboard.grafana import dashboard, written

__all__ = ["dashboard", "written"]
