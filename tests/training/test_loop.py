"""The loop on environments whose every step is known: what is stored, when it learns, what it says, when it stops."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from ebu.agent import AGENTS
from ebu.config import Config, override
from ebu.errors import RunFailure, UserError
from ebu.learning.span_values import SpanValues
from ebu.memory.samplers import whole_episodes
from ebu.registry import methods
from ebu.training.events import EpisodeEnded, Evaluated, Trained
from tests.conftest import Corridor, Script
from tests.tolerance import assert_within, value_bound

QUICK = {
    "learning_starts": 20,
    "train_freq": 2,
    "batch_size": 8,
    "eval_every": 0,
    "log_every": 10**9,
    "hidden_sizes": (16,),
}


def make_loop(env, algo="ebu", evaluation_env=None, device="cpu", **settings):
    config = override(Config(), algo=algo, env="Test-v0", **QUICK | settings)  # defaults, so that no preset interferes
    agent = AGENTS[algo].from_config(override(config, device="cpu"), env)
    agent.device = torch.device(device)
    agent.make_env = lambda: evaluation_env if evaluation_env is not None else refuse()
    return agent.loop


def refuse():
    raise UserError("no evaluation here")


def run(loop, steps):
    return [event for events in by_step(loop, steps) for event in events]


def by_step(loop, steps):
    """The events of each step."""
    loop.plan(steps)
    until = loop.step + steps
    while loop.step < until:
        yield list(loop.advance())


def episode(loop, number=0):
    """All of one stored episode, as a span."""
    return loop.memory.read(np.array([number]), np.array([0]), loop.memory.lengths(np.array([number])))


# ---------------------------------------------------------------------- environment → Episode → memory


def test_an_episode_is_stored_as_it_was_played():
    env = Script([0.5, -1.0, 2.0])
    loop = make_loop(env)
    run(loop, 3)
    span = episode(loop)
    assert span.frames.reshape(-1).tolist() == [0, 1, 2, 3]
    assert span.rewards.tolist() == [0.5, -1.0, 2.0]
    assert span.actions.tolist() == env.taken
    np.testing.assert_allclose(span.discounts, [0.99, 0.99, 0.0], rtol=1e-6)


def test_an_unfinished_episode_is_not_in_the_memory():
    loop = make_loop(Script([0.0] * 10))
    run(loop, 9)
    assert (loop.memory.episodes, loop.memory.steps, loop.episodes) == (0, 0, 0)
    run(loop, 1)
    assert (loop.memory.episodes, loop.memory.steps, loop.episodes) == (1, 10, 1)


def test_a_truncated_episode_bootstraps_at_its_end(double):
    loop = make_loop(Script([0.0, 1.0], terminated=False))
    run(loop, 2)
    span = episode(loop)
    np.testing.assert_allclose(span.discounts, [0.99, 0.99], rtol=1e-6)
    y = loop.rule(SpanValues(span, loop.learner)).values[0]
    beyond = loop.learner.target.values(torch.from_numpy(span.frames))[0, 2].max().item()
    assert y[1].item() == pytest.approx(1.0 + float(np.float32(0.99)) * beyond, rel=1e-12)


def test_truncation_ends_the_value_where_the_setting_says_so():
    loop = make_loop(Script([0.0, 1.0], terminated=False), truncation_is_terminal=True)
    run(loop, 2)
    assert episode(loop).discounts[-1] == 0.0
    assert loop.rule(SpanValues(episode(loop), loop.learner)).values[0, 1].item() == 1.0


def test_an_episode_both_terminated_and_truncated_has_ended():
    class Both(Script):
        def step(self, action):
            observation, reward, terminated, _, info = super().step(action)
            return observation, reward, terminated, terminated, info

    loop = make_loop(Both([0.0, 1.0]))
    run(loop, 2)
    assert episode(loop).discounts[-1] == 0.0


def test_rewards_are_clipped_for_learning_and_scores_stay_raw():
    loop = make_loop(Script([5.0, -7.0, 0.5]), reward_clip=1.0)
    (ended,) = run(loop, 3)
    assert episode(loop).rewards.tolist() == [1.0, -1.0, 0.5]
    assert ended.score == -1.5


def test_observations_are_stored_once_however_the_environment_keeps_them():
    """An environment may hand out the same array again and again, changed in place."""

    class InPlace(gymnasium.Env):
        def __init__(self, space):
            self.observation_space, self.action_space = space, spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.array = np.zeros(self.observation_space.shape, self.observation_space.dtype)
            return self.array, {}

        def step(self, action):
            self.array += 1
            return self.array, 0.0, bool(self.array.flat[0] == 4), False, {}

    for space in (
        spaces.Box(0, 255, (8, 8, 1), np.uint8),
        spaces.Box(0, 255, (8, 8, 3), np.uint8),
        spaces.Box(0, 255, (3, 8, 8), np.uint8),
        spaces.Box(0, 255, (8, 8), np.uint8),
        spaces.Box(0, 255, (3,), np.float32),
        spaces.MultiDiscrete([9, 9]),
    ):
        loop = make_loop(InPlace(space))
        run(loop, 4)
        seen = episode(loop).frames.reshape(5, -1)[:, 0]
        assert seen.tolist() == [0, 1, 2, 3, 4], space


def test_every_episode_is_reset_with_its_own_seed():
    env = Corridor(limit=5)
    loop = make_loop(env)
    run(loop, 60)
    assert len(set(env.seeds)) == len(env.seeds) >= 10
    assert None not in env.seeds
    again = Corridor(limit=5)
    run(make_loop(again), 60)
    assert again.seeds[:5] == env.seeds[:5]


@pytest.mark.parametrize("stack", [1, 3])
def test_the_states_acted_on_are_those_the_memory_rebuilds(stack):
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(9, 8, 8, 2)).astype(np.uint8)
    env = Script([0.0] * 8, frames, space=spaces.Box(0, 255, (8, 8, 2), np.uint8))
    loop = make_loop(env, stack=stack, compress="always", exploration_initial_eps=0.0, exploration_final_eps=0.0)
    seen = []
    values = loop.policies[0].values

    def remember(state):
        seen.append(state.copy())
        return values(state)

    loop.policies[0].values = remember
    run(loop, 16)  # two episodes: the second must not see the first
    for number in (0, 1):
        span = episode(loop, number)
        assert np.array_equal(span.states(span.rows), np.stack(seen[8 * number : 8 * number + 8]))


def test_random_first_actions_open_every_episode():
    env = Script([0.0] * 10, actions=5)
    loop = make_loop(env, random_first_actions=3, exploration_initial_eps=0.0, exploration_final_eps=0.0)
    run(loop, 400)
    opening, rest = np.array(env.taken).reshape(-1, 10)[:, :3], np.array(env.taken).reshape(-1, 10)[:, 3:]
    assert set(opening.reshape(-1).tolist()) == set(range(5))
    assert len(set(rest[:2].reshape(-1).tolist())) <= 2  # greedy, before learning starts: one action for each state


# ---------------------------------------------------------------------- damaged numbers


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_damaged_reward_stops_the_run_and_is_named(value):
    env = Script([0.0, 1.0, value, 0.0])
    loop = make_loop(env)
    with pytest.raises(RunFailure) as failure:
        run(loop, 10)
    message = str(failure.value)
    assert "step 3" in message and f"action {env.taken[2]}" in message and f"reward {value}" in message
    assert "\n" not in message
    assert loop.memory.episodes == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_damaged_observation_stops_the_run_and_is_named(value):
    frames = np.zeros((6, 4), np.float32)
    frames[3, 2] = value
    env = Script([0.0] * 5, frames, space=spaces.Box(-np.inf, np.inf, (4,), np.float32))
    loop = make_loop(env)
    with pytest.raises(RunFailure) as failure:
        run(loop, 10)
    message = str(failure.value)
    assert "step 3" in message and f"action {env.taken[2]}" in message and str(value) in message and "[2]" in message
    assert loop.memory.episodes == 0


def test_a_damaged_first_observation_is_named_too():
    frames = np.full((3, 4), np.nan, np.float32)
    env = Script([0.0] * 2, frames, space=spaces.Box(-np.inf, np.inf, (4,), np.float32))
    with pytest.raises(RunFailure, match=r"nan at index \[0\] at step 1, at reset"):
        run(make_loop(env), 1)


def test_damage_in_the_last_step_keeps_its_whole_episode_out():
    good_then_bad = Script([1.0, 2.0])
    loop = make_loop(good_then_bad)
    run(loop, 2)
    good_then_bad.rewards = [1.0, math.nan]
    with pytest.raises(RunFailure, match="step 4"):
        run(loop, 2)
    assert (loop.memory.episodes, loop.memory.steps) == (1, 2)
    assert np.isfinite(episode(loop).rewards).all()


@pytest.mark.parametrize("value", [1e39, -1e300])
def test_a_number_too_large_to_be_stored_does_not_become_infinity_in_the_memory(value):
    loop = make_loop(Script([0.0, value]))
    with pytest.raises(RunFailure, match="step 2"):
        run(loop, 2)
    assert loop.memory.episodes == 0


def test_a_large_reward_that_is_clipped_does_no_harm():
    loop = make_loop(Script([0.0, 1e39]), reward_clip=1.0)
    run(loop, 2)
    assert episode(loop).rewards.tolist() == [0.0, 1.0]


def test_a_float64_observation_beyond_single_precision_is_damage():
    frames = np.zeros((3, 1))
    frames[1] = 1e300
    env = Script([0.0] * 2, frames, space=spaces.Box(-np.inf, np.inf, (1,), np.float64))
    with pytest.raises(RunFailure, match="step 1"), np.errstate(over="ignore"):
        run(make_loop(env), 2)


def test_a_loss_that_explodes_stops_the_run_with_advice():
    loop = make_loop(Script([1e30] * 5), loss="mse", log_every=50)  # its square is beyond single precision
    with pytest.raises(RunFailure, match=r"the loss became inf before step 50; try a smaller --learning-rate"):
        run(loop, 100)


# ---------------------------------------------------------------------- when it learns


def test_updates_begin_after_learning_starts_and_follow_the_frequency():
    loop = make_loop(Corridor(limit=5), learning_starts=20, train_freq=4, gradient_steps=3)
    counts = []
    for _ in by_step(loop, 40):
        counts.append(loop.updates)
    assert counts[:23] == [0] * 23
    assert counts[23:] == [3 * ((step - 20) // 4) for step in range(24, 41)]


def test_nothing_is_learned_before_an_episode_has_finished():
    loop = make_loop(Script([0.0] * 100), learning_starts=0, train_freq=1)
    run(loop, 99)
    assert loop.updates == 0
    run(loop, 1)
    assert loop.updates == 1


def test_the_target_network_follows_at_its_interval_only():
    loop = make_loop(Corridor(limit=5), target_update_interval=30, learning_starts=10, train_freq=1)
    changed, before = [], loop.learner.target.parameters.clone()
    for _ in by_step(loop, 100):
        if not torch.equal(before, loop.learner.target.parameters):
            assert torch.equal(loop.learner.target.parameters, loop.learner.online.parameters)
            changed.append(loop.step)
            before = loop.learner.target.parameters.clone()
    assert changed == [30, 60, 90]


def test_minibatches_run_through_sampled_episodes_from_their_ends():
    """Batches of 4 over episodes of 6: one episode lasts for one and a half updates, then the next tops up."""
    loop = make_loop(Script([0.0] * 6), batch_size=4, learning_starts=5, train_freq=1)
    batches = []
    update = loop.learner.update

    def remember(batch):
        batches.append(batch.steps)
        return update(batch)

    loop.learner.update = remember
    run(loop, 60)
    handed_out = np.concatenate(batches)
    whole = handed_out[: len(handed_out) // 6 * 6].reshape(-1, 6)
    assert (np.diff(whole, axis=1) == -1).all()
    assert (whole[:, 0] % 6 == 5).all()
    assert len(whole) >= 30


def test_whole_episode_trains_on_all_steps_of_one_episode_at_once():
    loop = make_loop(Script([0.0] * 7), whole_episode=True, batch_size=4, learning_starts=7, train_freq=1)
    sizes = []
    update = loop.learner.update

    def remember(batch):
        sizes.append(batch.steps.tolist())
        return update(batch)

    loop.learner.update = remember
    run(loop, 30)
    assert {len(steps) for steps in sizes} == {7}
    assert all(steps == list(range(max(steps), min(steps) - 1, -1)) for steps in sizes)


def test_targets_in_the_backlog_keep_their_values_over_a_target_copy():
    loop = make_loop(Script([1.0] * 50, terminated=False), batch_size=5, learning_starts=49, train_freq=1)
    run(loop, 50)
    pending = loop.backlog._queue[0]
    y, span = pending.targets.values.clone(), pending.span
    with torch.no_grad():
        loop.learner.online.parameters.add_(0.5)
    loop.learner.update_target()
    assert not torch.allclose(loop.rule(SpanValues(span, loop.learner)).values, y)
    batch = loop.backlog.pop(5)
    assert torch.equal(batch.targets[0], y[0, span.trained[5:10]])


def test_targets_are_those_of_the_target_network_and_the_rule(double):
    loop = make_loop(Corridor(limit=9), beta=0.7)
    run(loop, 40)
    span = whole_episodes(loop.memory, np.arange(loop.memory.first_episode, loop.memory.end_episode))
    valued = SpanValues(span, loop.learner)
    with torch.no_grad():
        expected = loop.learner.target.values(torch.from_numpy(span.frames))[:, span.rows + 1]
    bound = value_bound(loop.learner.target, torch.from_numpy(span.frames))
    assert_within(valued.target_next, expected, bound[:, span.rows + 1])
    assert not torch.equal(loop.learner.online.parameters, loop.learner.target.parameters)


def test_a_long_span_is_valued_in_parts_that_fit_together(double, monkeypatch):
    loop = make_loop(Script([0.0] * 25))
    run(loop, 25)
    whole = SpanValues(episode(loop), loop.learner).target_next
    monkeypatch.setattr("ebu.learning.span_values.FORWARD_ROWS", 7)
    bound = value_bound(loop.learner.target, torch.from_numpy(episode(loop).frames))[:, 1:]
    assert_within(SpanValues(episode(loop), loop.learner).target_next, whole, bound)


def test_it_learns_the_corridor():
    env = Corridor(length=6, limit=40)
    loop = make_loop(env, evaluation_env=Corridor(length=6, limit=40), gamma=0.9, learning_rate=5e-3, hidden_sizes=(32,))
    run(loop, 1500)
    result = loop.evaluate().evaluation
    assert result.mean == 1.0
    assert set(result.relative_lengths) == {1.0}


# ---------------------------------------------------------------------- what it says


def test_the_events_of_a_run_in_order():
    loop = make_loop(
        Script([1.0, 2.0, 3.0]), evaluation_env=Script([1.0, 2.0, 3.0]), log_every=4, eval_every=6, eval_episodes=2
    )
    events = run(loop, 12)
    assert [(type(e), e.step) for e in events] == [
        (EpisodeEnded, 3),
        (Trained, 4),
        (EpisodeEnded, 6),
        (Evaluated, 6),
        (Trained, 8),
        (EpisodeEnded, 9),
        (EpisodeEnded, 12),
        (Trained, 12),
        (Evaluated, 12),
    ]
    first = events[0]
    assert (first.episode, first.score, first.length, first.terminated) == (1, 6.0, 3, True)
    assert events[3].evaluation.returns == (6.0, 6.0)


def test_a_row_of_training_metrics():
    loop = make_loop(Corridor(limit=5), log_every=60, exploration_fraction=1.0, exploration_final_eps=0.0)
    rows = [event for event in run(loop, 120) if isinstance(event, Trained)]
    first = rows[0].metrics
    assert first["epsilon"] == 0.5
    assert first["episodes"] == first["memory_episodes"] >= 12
    assert first["memory_steps"] <= 60
    assert first["updates"] == 20
    assert 0.0 <= first["ep_rew_mean"] <= 1.0 and 4 <= first["ep_len_mean"] <= 5
    assert first["relative_length"] >= 1.0
    assert first["loss"] >= 0.0 and math.isfinite(first["q_mean"])


def test_before_anything_happened_there_is_nothing_to_average():
    loop = make_loop(Script([0.0] * 100), log_every=10)
    (row,) = run(loop, 10)
    assert not {"loss", "q_mean", "ep_rew_mean", "relative_length"} & row.metrics.keys()


def test_what_the_environment_says_besides_is_nobody_s_business():
    """Words in ``info`` that mean something to us may mean something else to a stranger."""

    class Talkative(Script):
        def step(self, action):
            *result, _ = super().step(action)
            return *result, {"game_over": True, "lives": 0}

    loop = make_loop(Talkative([1.0, 2.0]), log_every=2)
    run(loop, 4)
    assert loop.episodes == 2


# ---------------------------------------------------------------------- running on


def test_running_twice_continues_where_the_first_run_stopped():
    straight, in_two = make_loop(Corridor(limit=7)), make_loop(Corridor(limit=7))
    run(straight, 150)
    for steps in (50, 100):
        run(in_two, steps)
    assert in_two.step == 150
    assert (in_two.episodes, in_two.memory.steps) != (0, 0)
    assert in_two.epsilon.duration == round(0.2 * 100)  # planned anew
    assert (straight.step, straight.epsilon.duration) == (150, 30)


def test_two_halves_equal_one_run_where_no_schedule_depends_on_its_length():
    settings = {"exploration_initial_eps": 0.3, "exploration_final_eps": 0.3}
    straight, in_two = make_loop(Corridor(limit=7), **settings), make_loop(Corridor(limit=7), **settings)
    events = run(straight, 150)
    assert events == run(in_two, 63) + run(in_two, 87)
    assert torch.equal(straight.learner.online.parameters, in_two.learner.online.parameters)


def test_a_step_can_be_taken_between_any_two_others():
    loop = make_loop(Corridor(limit=7))
    stepper = by_step(loop, 30)
    next(stepper)
    assert loop.step == 1
    for _ in stepper:
        pass
    assert loop.step == 30


# Prioritised replay and recorded probabilities take numbers back from the device, which the meta device has none of.
NEVER_LOOKS_BACK = [name for name, algorithm in methods().items() if name != "per" and not algorithm.needs_behaviour]


@pytest.mark.parametrize("algo", NEVER_LOOKS_BACK)
def test_the_whole_chain_stays_on_the_device_given(algo):
    """On the meta device no value exists and a CPU tensor that slipped in is an error; so actions are random here."""
    loop = make_loop(
        Corridor(limit=6), algo, device="meta", exploration_initial_eps=1.0, exploration_final_eps=1.0, betas=(0.0, 1.0)
    )
    run(loop, 100)
    assert loop.updates == 40
    assert {t.device.type for t in (*loop.statistics._losses, *loop.statistics._values)} == {"meta"}
    assert loop.learner.online.parameters.device.type == loop.learner.target.parameters.device.type == "meta"
