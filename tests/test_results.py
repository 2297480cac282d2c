import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_readme_shows_what_the_rows_say():
    spec = importlib.util.spec_from_file_location("results_script", ROOT / "scripts" / "results.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.rendered() == (ROOT / "README.md").read_text(encoding="utf-8"), "run `make results`"
