"""README, docs/results.md and the picture say what the rows under results/ say."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from ebu.experiments.items import find_item
from tests.experiments.pages import write_trial
from tests.report.folders import write_run

ROOT = Path(__file__).parent.parent
UPDATE = "run `make results`"


def load():
    spec = importlib.util.spec_from_file_location("results_script", ROOT / "scripts" / "results.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.fixture
def copied(tmp_path):
    """The script over a copy of everything it reads and writes."""
    for name in ("README.md", "docs/results.md", "docs/pictures", "results"):
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("trials", "checkpoints"))
        else:
            shutil.copy(source, target)
    script = load()
    script.ROOT, script.README, script.PAGE = tmp_path, tmp_path / "README.md", tmp_path / "docs/results.md"
    script.PICTURE, script.MAZE = tmp_path / "docs/pictures/results.png", tmp_path / "docs/pictures/maze.png"
    return script


def test_readme_page_and_picture_say_what_the_rows_say():
    assert load().disagreements() == [], UPDATE


def test_a_changed_row_is_noticed_everywhere(copied):
    path = copied.ROOT / "results/maze-quick.jsonl"
    first, *others = path.read_text().splitlines()
    row = json.loads(first) | {"final": 2.0}
    row["curve"][-1] = 2.0
    path.write_text("\n".join([json.dumps(row), *others]) + "\n")
    assert copied.disagreements() == ["README.md", "docs/results.md", "docs/pictures/results.png"]


def test_a_new_atari_run_joins_the_table_the_page_and_the_picture(copied):
    shutil.rmtree(copied.ROOT / "results/atari", ignore_errors=True)
    for algo, scores in {"ebu": (1.0, 20.0, 10.0), "dqn": (1.0, 2.0, 3.0)}.items():
        run = write_run(
            copied.ROOT / f"results/atari/Breakout-{algo}", algo, "ALE/Breakout-v5", scores, 250_000, preset="paper", seed=0
        )
        (run / "timing.jsonl").write_text('{"step": 750000, "seconds": 7200.0}\n')
    table = copied.block()
    assert "EBU (β=0.5) 20.0, Nature DQN 3.0 (1 seed; random play 1.7; the paper after 10M frames: 174.8, 28.4)" in table
    assert "| Breakout, 3M frames, `paper` preset | `ebu train --env ALE/Breakout-v5 --preset paper --steps 750000` |" in table
    line = next(line for line in copied.page().splitlines() if line.startswith("| Breakout | paper | EBU (β=0.5)"))
    assert line.startswith("| Breakout | paper | EBU (β=0.5) | 0 | 750,000 | 3M | 20.00 | 10.00 | 174.76 | 401.20 | 1.7 |")
    assert "| 2.0 |" in line  # hours
    assert copied.shown()["Breakout (paper), test score"]["ebu"] == [[1.0, 2.0, 3.0], [1.0, 20.0, 10.0]]
    copied.draw()
    assert copied.digest_in_picture() == copied.digest()


def finished(item, folder, trials, trained):
    """An item of the budget laptop, made from some of its trials."""
    folders = [write_trial(trained / one.id, one) for one in trials]
    shutil.rmtree(folder, ignore_errors=True)
    find_item(item).analyse("laptop", trials, folders, folder)


def test_half_of_table_1_is_shown_with_the_number_of_mazes(copied, tmp_path):
    assert "MNIST maze half way" not in copied.block()  # the committed rows are of an easier task
    trials = [one for one in find_item("table1").trials("laptop") if one.seed < 2]
    finished("table1", copied.ROOT / "results/table1", trials, tmp_path / "trained")
    assert "Table 1: MNIST maze half way, 50 % walls, 2 mazes of 50" in copied.block()
    page = copied.page()
    assert "So far 24 of 144 trials are finished" in page
    assert "| 50 % | N-step DQN | 2 | 11.32 | 3.12 |" in page


@pytest.mark.parametrize("item", ["minatar", "minigrid", "delay"])
def test_a_suite_joins_the_page_and_the_table_when_it_has_rows(item, copied, tmp_path):
    assert f"`{item}`" in copied.page() and f"ebu reproduce {item} --budget laptop" not in copied.block()
    trials = [one for one in find_item(item).trials("laptop") if one.seed == 0 and one.algo in ("ebu", "dqn")]
    finished(item, copied.ROOT / "results" / item, trials, tmp_path / "trained")
    assert f"`ebu reproduce {item} --budget laptop` | normalised area under the curve: " in copied.block()
    assert f"](../results/{item}/{item}.png)" in copied.page() and "Means over seeds by task" in copied.page()
