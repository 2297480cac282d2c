"""A folder to pass on: the policy, its settings and scores, a curve, a video and a card, as the Hugging Face hub takes it.

``ebu.load`` reads the folder, here and after a download. Nothing in it is a pickle.
"""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from ebu.agent import Agent
from ebu.api import evaluate, load
from ebu.config import override, to_json
from ebu.errors import RunFailure, UserError
from ebu.preset_files import preset_text
from ebu.presets import differences
from ebu.storage.files import MAX_POLICY, make_folders, read_file, write_atomically
from ebu.storage.run_folder import SHARED_POLICY, RunFolder
from ebu.training.environment import Environment
from ebu.training.evaluate import rollout
from ebu.training.film import write_film
from ebu.training.summary import draw_curve
from ebu.types import Evaluation
from ebu.version import __version__

FILM_STEPS = 1_000


def share(
    run: str | Path,
    out: str | Path,
    *,
    best: bool = False,
    episodes: int = 30,
    film: bool = True,
    seed: int = 0,
    trust_env: bool = False,
) -> Path:
    """Write the folder ``out`` from a run folder or a policy file; one that already holds something is left alone."""
    run, out = Path(run), Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} already holds something; choose another --out folder")
    agent = load(run, device="cpu", trust_env=trust_env, best=best)
    scores = evaluate(agent, episodes=episodes, epsilon=agent.config.evaluation.eval_epsilon, seed=seed)
    config = override(agent.config, device="auto")
    try:
        make_folders(out)
        files: dict[str, str | bytes] = {
            SHARED_POLICY: read_file(_policy_file(run, best).resolve(), MAX_POLICY),
            "config.json": to_json(config),
            "preset.toml": preset_text(differences(config), f"{config.algo} on {config.environment.env}"),
            "results.json": json.dumps(_results(agent, scores), indent=2) + "\n",
        }
        for name, content in files.items():
            write_atomically(out / name, content)
        shown = [
            name
            for name, there in (("curve.png", _curve(run, out)), ("replay.mp4", film and _film(agent, out, seed)))
            if there
        ]
        write_atomically(out / "README.md", card(agent, scores, shown))  # last: with it, everything is there
    except OSError as error:
        raise RunFailure(f"cannot write to {out}: {error.strerror}") from error
    return out


def _policy_file(run: Path, best: bool) -> Path:
    return RunFolder.open(run).policy_file(best) if run.is_dir() else run


def _curve(run: Path, out: Path) -> bool:
    """The learning curve, where the run has rows."""
    if not run.is_dir() or not RunFolder(run).metrics.is_file():
        return False
    draw_curve(RunFolder(run), out / "curve.png")
    return True


def _film(agent: Agent, out: Path, seed: int) -> bool:
    """A video of one greedy episode, where the environment can be rendered and videos can be written."""
    if "rgb_array" not in agent.env.metadata.get("render_modes", []) or importlib.util.find_spec("imageio_ffmpeg") is None:
        return False
    env = agent.make_env(render_mode="rgb_array")
    pictures: list[Any] = []
    steps = rollout(
        agent.policy,
        Environment(env),
        seed=seed,
        epsilon=0.0,
        rng=np.random.default_rng(seed),
        stack=agent.interface.stack,
        max_steps=FILM_STEPS,
        watch=lambda: pictures.append(env.render()),
    )
    for _ in steps:
        pass
    write_film(out / "replay.mp4", pictures, int(env.metadata.get("render_fps") or 15))
    return True


def _results(agent: Agent, scores: Evaluation) -> dict[str, Any]:
    return {
        "env_id": agent.config.environment.env,
        "mean_reward": scores.mean,
        "std_reward": _deviation(scores),
        "n_eval_episodes": len(scores.returns),
        "eval_epsilon": agent.config.evaluation.eval_epsilon,
        "ebu_version": __version__,
    }


def _deviation(scores: Evaluation) -> float:
    return math.sqrt(sum((one - scores.mean) ** 2 for one in scores.returns) / len(scores.returns))


def card(agent: Agent, scores: Evaluation, shown: list[str]) -> str:
    """The model card: what the hub reads of it is JSON, which is YAML, too."""
    config, method = agent.config, agent.method
    env = config.environment.env
    metric = {"type": "mean_reward", "name": "mean_reward", "value": round(scores.mean, 4), "verified": False}
    head = {
        "library_name": "ebu",
        "tags": ["reinforcement-learning", "deep-reinforcement-learning", "ebu", config.algo, env],
        "model-index": [
            {
                "name": f"{config.algo}-{env}",
                "results": [
                    {
                        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
                        "dataset": {"type": env, "name": env},
                        "metrics": [metric],
                    }
                ],
            }
        ],
    }
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    over = f"standard deviation over {len(scores.returns)} episodes, ε = {config.evaluation.eval_epsilon:g}"
    score = f"**{scores.mean:.4g}** ± {_deviation(scores):.4g} ({over})"
    parts = [
        "---\n" + "\n".join(lines) + "\n---",
        f"# {method.title} on {env}",
        f"Score: {score}, after {config.steps:,} planned steps.",
        *(f"![Learning curve]({name})" for name in shown if name.endswith(".png")),
        *(f'<video src="{name}" controls autoplay loop muted></video>' for name in shown if name.endswith(".mp4")),
        USE,
        f"Made by [ebu](https://github.com/episodic-backward-update/ebu) {__version__}.",
    ]
    return "\n\n".join(parts) + "\n"


USE = """## Use

```
pip install episodic-backward-update huggingface_hub
```

```python
import ebu
from huggingface_hub import snapshot_download

agent = ebu.load(snapshot_download("USER/REPOSITORY", local_dir="downloaded"))
print(ebu.evaluate(agent, episodes=10).mean)
```

Train it again with the same settings: `ebu train --preset preset.toml`. The seed and all other settings are in `config.json`.
The policy is a safetensors file; nothing is pickled."""
