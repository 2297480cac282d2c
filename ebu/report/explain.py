"""The explainer page: one stored episode played backward, under four target rules. The numbers are given, never made up.

`ebu.experiments.explain_data.scenes()` computes them with the shipped rules; this module only lays them out, so that it
needs no PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ebu.report import html

TITLE = "How a reward travels back: Episodic Backward Update"


def build_explainer(out: Path, scenes: Sequence[dict[str, Any]]) -> Path:
    """Write the page that plays these scenes."""
    page = html.document(
        TITLE,
        html.asset("explain.html"),
        styles=["base.css", "report.css", "explain.css"],
        scripts=["chart.js", "worlds.js", "explain.js"],
        data={"scenes": scenes},
    )
    return html.write(out, page)
