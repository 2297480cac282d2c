"""The small MDPs of the paper and of its proofs, and random ones to try the theorems on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ebu.errors import UserError
from ebu.theory.mdp import MDP, Outcome, from_gymnasium
from ebu.types import Array, Episode

LEFT, RIGHT = 0, 1
EXIT, ONWARD = 0, 1


def episode(
    states: Sequence[int] | Array,
    actions: Sequence[int] | Array,
    rewards: Sequence[float] | Array,
    terminated: bool = True,
    behaviour: float = 0.5,
) -> Episode:
    """An episode over state numbers. Rewards stay in double precision, so that identities can be checked to 1e-12."""
    return Episode(
        observations=np.asarray(states, dtype=np.int64),
        actions=np.asarray(actions, dtype=np.int64),
        rewards=np.asarray(rewards, dtype=np.float64),
        behaviour=np.full(len(actions), behaviour),
        terminated=terminated,
    )


def figure1_chain() -> MDP:
    """Figure 1(a): s1 … s4 in a row, left or right, +1 for entering s4, where the episode ends. s1's left stays."""
    table: dict[int, dict[int, list[Outcome]]] = {
        s: {LEFT: [(1.0, max(s - 1, 0), 0.0, False)], RIGHT: [(1.0, s + 1, float(s == 2), s == 2)]} for s in range(3)
    }
    table[3] = {a: [(1.0, 3, 0.0, True)] for a in (LEFT, RIGHT)}
    return MDP.from_table(table, name="figure1")


def figure1_episode() -> Episode:
    """The one stored episode of Figure 1: s1 → s2 → s3 → s2 → s3 → s4."""
    return episode([0, 1, 2, 1, 2, 3], [RIGHT, RIGHT, LEFT, RIGHT, RIGHT], [0, 0, 0, 0, 1])


def branching_chain(rewards: Sequence[float]) -> MDP:
    """Appendix F: state s_i ends in s_i' with reward r_i, or continues; the last one's two ends pay r_{n−1} and r_n."""
    n = len(rewards)
    table: dict[int, dict[int, list[Outcome]]] = {
        s: {EXIT: [(1.0, s, float(rewards[s]), True)], ONWARD: [(1.0, s + 1, 0.0, False)]} for s in range(n - 1)
    }
    table[n - 2][ONWARD] = [(1.0, n - 2, float(rewards[-1]), True)]
    return MDP.from_table(table, name=f"branching-{n}")


def branching_rewards(n: int) -> list[float]:
    """Our choice where the paper prints none: r_i = n − i falls along the chain, and the far end pays r_n = n, most."""
    return [float(n - i) for i in range(1, n)] + [float(n)]


def branching_episodes(rewards: Sequence[float]) -> list[Episode]:
    """All n episodes E_1 … E_n of the branching chain, the nearest exit first."""
    n = len(rewards)
    nearest = [episode([*range(i + 1), i], [ONWARD] * i + [EXIT], [0.0] * i + [rewards[i]]) for i in range(n - 1)]
    return [*nearest, episode([*range(n - 1), n - 2], [ONWARD] * (n - 1), [0.0] * (n - 2) + [rewards[-1]])]


# Two arms behind one forced step: s0 → s1, then an arm pays and the episode ends. In every one the recursion passes
# through a single maximum, so the expected target of the first step can be worked out by hand.
def two_arms(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]], name: str) -> MDP:
    """Both actions of s0 lead to s1 for nothing; there each arm is a list of (probability, payment)."""
    forced: dict[int, list[Outcome]] = {a: [(1.0, 1, 0.0, False)] for a in (0, 1)}
    arms: dict[int, list[Outcome]] = {a: [(p, 1, r, True) for p, r in arm] for a, arm in enumerate((first, second))}
    return MDP.from_table({0: forced, 1: arms}, name=name)


def noisy_suboptimal_arm() -> MDP:
    """A sure 0.5 beats a coin worth 0.3 on average: unbiased up to β = 2/7, which is printed bound (1)."""
    return two_arms([(1.0, 0.5)], [(0.3, 1.0), (0.7, 0.0)], "noisy-suboptimal-arm")


def noisy_optimal_arm() -> MDP:
    """A fair coin beats a sure 0.3: unbiased up to β = 2/5, which is printed bound (2)."""
    return two_arms([(0.5, 1.0), (0.5, 0.0)], [(1.0, 0.3)], "noisy-optimal-arm")


def late_coin() -> MDP:
    """Counterexample A: the coin is tossed one step after the choice, so immediate rewards show nothing of it.

    s1's first arm pays 0 and leads to s2 or s3, worth 1 and 0; the second pays a sure 0.4. Both printed bounds are
    infinite, yet the target is biased as soon as β > 0.2.
    """
    table: dict[int, dict[int, list[Outcome]]] = {
        0: {a: [(1.0, 1, 0.0, False)] for a in (0, 1)},
        1: {0: [(0.5, 2, 0.0, False), (0.5, 3, 0.0, False)], 1: [(1.0, 1, 0.4, True)]},
        2: {a: [(1.0, 2, 1.0, True)] for a in (0, 1)},
        3: {a: [(1.0, 3, 0.0, True)] for a in (0, 1)},
    }
    return MDP.from_table(table, name="example-a")


def tied_coins() -> MDP:
    """Counterexample B: two equal coins. No action is suboptimal, so nothing is bounded; any β > 0 is biased."""
    coin = [(0.5, 1.0), (0.5, 0.0)]
    return two_arms(coin, coin, "example-b")


def random_mdp(
    rng: np.random.Generator,
    states: int,
    actions: int = 2,
    outcomes: int = 1,
    acyclic: bool = True,
    termination: float = 0.2,
) -> MDP:
    """A random MDP with normal rewards; deterministic with one outcome per action.

    Acyclic ones only lead to states with larger numbers, so the last state always terminates.
    """
    shape = (states, actions, outcomes)
    lowest = np.arange(states)[:, None, None] + 1 if acyclic else np.zeros((states, 1, 1))
    next_state = np.minimum(lowest + np.floor(rng.random(shape) * (states - lowest)), states - 1).astype(np.int64)
    terminal = (rng.random(shape) < termination) | (acyclic & (lowest >= states))
    probability = rng.dirichlet(np.ones(outcomes), size=shape[:2])
    return MDP(probability, next_state, rng.normal(size=shape), terminal, np.full(states, 1 / states), "random")


TOYS: dict[str, Callable[[], MDP]] = {
    "figure1": figure1_chain,
    "appendix-f": lambda: branching_chain(branching_rewards(3)),
    "noisy-suboptimal-arm": noisy_suboptimal_arm,
    "noisy-optimal-arm": noisy_optimal_arm,
    "example-a": late_coin,
    "example-b": tied_coins,
}


def named_mdp(name: str) -> MDP:
    """A toy by name, or the table of a Gymnasium environment by id."""
    if name in TOYS:
        return TOYS[name]()
    try:
        return from_gymnasium(name)
    except UserError as error:
        raise UserError(f"{error} (toys by name: {', '.join(TOYS)})") from error
