"""What every test stands on: hypothesis profiles, and a catalogue that is the shipped one.

HYPOTHESIS_PROFILE=heavy python -m pytest        a law over many more models, chips and steps
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

# deadline: the first example of a law builds pydantic's validators and fills caches, so single examples vary widely
settings.register_profile(
    "default",
    max_examples=25,
    derandomize=True,  # the gate gives one verdict on one commit; the heavy profile goes exploring
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink],  # explaining a failure is slow
)
settings.register_profile("heavy", settings.get_profile("default"), max_examples=500, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session", autouse=True)
def _the_shipped_catalogue() -> Iterator[None]:
    """Nobody's own specs hide the shipped ones while the tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ROOFLINE_PATH", raising=False)
        yield


@pytest.fixture
def chinese_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures in Chinese are drawn where no font has the letters, too: with boxes in their place (a Glyph warning each)."""
    from matplotlib.font_manager import fontManager

    from roofline.views.plot import theme

    if not {font.name for font in fontManager.ttflist} & set(theme.CHINESE):
        monkeypatch.setattr(theme, "CHINESE", ("DejaVu Sans Mono",))


@pytest.fixture
def tidy_pictures() -> Iterator[None]:
    """No figure survives a test, and none changes a global setting."""
    import matplotlib
    import matplotlib.pyplot as plt

    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before
