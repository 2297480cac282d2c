"""``ebu share``: a trained run as a folder that others can load, and the Hugging Face hub takes as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ebu.commands.parsing import parse


@dataclass(frozen=True)
class ShareArguments:
    """Write policy, settings, scores, curve, video and a model card into one folder."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder, or a policy file."""
    out: Path = Path("shared")
    """Folder to write; it must be new or empty."""
    best: bool = False
    """For a run folder: the policy of the best evaluation instead of the last one."""
    episodes: int = 30
    """Evaluation episodes for the score on the card."""
    film: bool = True
    """Record an episode, if the environment can be rendered."""
    seed: int = 0
    """Seed of the episodes that are scored and shown."""
    trust_env: bool = False
    """Import the module of an environment that the file names as module:id."""


def share_run(arguments: list[str]) -> int:
    from ebu.sharing import share

    args = parse(ShareArguments, arguments, "ebu share")
    out = share(
        args.run,
        args.out,
        best=args.best,
        episodes=args.episodes,
        film=args.film,
        seed=args.seed,
        trust_env=args.trust_env,
    )
    print(f"wrote {out} ({', '.join(sorted(path.name for path in out.iterdir()))})")
    return 0
