"""Which whole episodes are replayed: new ones at once, or those with large errors more often; against a plain table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import ebu
from ebu.memory.episode_choice import ErrorEpisodeSampler, NewestEpisodeSampler
from ebu.memory.samplers import EpisodeSampler
from tests.memory.test_samplers import added, filled


def episodes_of(memory, span):
    """The episodes of a span, in its order."""
    starts = np.flatnonzero(np.concatenate([[True], ~span.continues[:-1]]))
    return memory.locate(span.steps[starts])[0].tolist()


def replay(sampler, span, count=None, errors=None):
    """The first steps that a span hands out, as the loop reports them."""
    steps = span.steps[span.trained][:count]
    sampler.feedback(steps, np.zeros(len(steps), np.float32) if errors is None else errors[steps])


# ---------------------------------------------------------------------- new ones at once


def test_a_group_begins_with_the_episodes_that_have_ended_since_the_last_one_newest_first():
    memory, sampler, rng = filled([3, 4, 2, 5]), NewestEpisodeSampler(), np.random.default_rng(0)
    span = sampler.sample(memory, 8, rng)
    assert episodes_of(memory, span) == [3, 2, 1]
    replay(sampler, span, count=1)
    added(memory, 2), added(memory, 1)
    span = sampler.sample(memory, 40, rng)
    assert episodes_of(memory, span)[:2] == [5, 4]
    replay(sampler, span)
    assert sampler.first(memory).size == 0


def test_an_abandoned_sample_is_made_again():
    memory, sampler = filled([3, 4, 2, 5]), NewestEpisodeSampler()
    abandoned, again = (sampler.sample(memory, 30, np.random.default_rng(1)) for _ in range(2))
    assert abandoned.steps.tolist() == again.steps.tolist()


def test_new_episodes_that_are_gone_already_are_passed_over():
    memory, sampler = filled([10] * 30, capacity=25), NewestEpisodeSampler()
    assert sampler.first(memory).tolist() == [29, 28]


def test_once_nothing_is_new_it_draws_as_the_uniform_sampler():
    memory, sampler = filled([3, 4, 2, 5]), NewestEpisodeSampler()
    replay(sampler, sampler.sample(memory, 5, np.random.default_rng(0)))
    spans = [one.sample(memory, 50, np.random.default_rng(1)) for one in (sampler, EpisodeSampler())]
    assert spans[0].steps.tolist() == spans[1].steps.tolist()


# ---------------------------------------------------------------------- by their errors

LENGTHS = [1, 4, 2, 6, 3]


def by_hand(errors_of_steps, lengths, alpha):
    """The probability of each episode; None is an error that is not known."""
    means, step = [], 0
    for length in lengths:
        known = [error for error in errors_of_steps[step : step + length] if error is not None]
        means.append(sum(known) / len(known) if known else None)
        step += length
    largest = max(mean for mean in means if mean is not None)
    weights = [(largest if mean is None else mean) ** alpha for mean in means]
    return np.array(weights) / sum(weights)


@pytest.mark.parametrize(("alpha", "progress"), [(1.0, 0.0), (0.5, 0.0), (1.0, 0.75), (0.5, 1.0)])
def test_episodes_are_drawn_by_the_mean_size_of_their_known_errors(alpha, progress):
    memory, sampler, rng = filled(LENGTHS), ErrorEpisodeSampler(alpha), np.random.default_rng(0)
    errors = [0.2, -1.0, 3.0, None, None, 0.5, 0.1, None, None, None, None, None, None, 4.0, -2.0, 0.0]
    sampler.sample(memory, 1, rng)
    for step, error in enumerate(errors):
        if error is not None:
            sampler.feedback(np.array([step]), np.array([9.0], np.float32))  # the last error counts
            sampler.feedback(np.array([step]), np.array([error], np.float32))
    drawn = np.bincount(sampler.draw(memory, 20_000, rng, progress), minlength=len(LENGTHS))
    sizes = [None if error is None else abs(error) for error in errors]
    expected = by_hand(sizes, LENGTHS, alpha * (1 - progress))
    assert stats.chisquare(drawn, 20_000 * expected).pvalue > 0.01


def test_before_any_replay_all_are_equally_likely_and_no_error_leaves_an_episode_drawn():
    memory, sampler, rng = filled(LENGTHS), ErrorEpisodeSampler(1.0), np.random.default_rng(0)
    assert stats.chisquare(np.bincount(sampler.draw(memory, 5_000, rng, 0.0))).pvalue > 0.01
    sampler.feedback(np.arange(16), np.zeros(16, np.float32))
    assert stats.chisquare(np.bincount(sampler.draw(memory, 5_000, rng, 0.0))).pvalue > 0.01


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_errors_that_are_no_numbers_do_not_stop_it(bad):
    memory, sampler, rng = filled(LENGTHS), ErrorEpisodeSampler(1.0), np.random.default_rng(0)
    sampler.sample(memory, 1, rng)
    sampler.feedback(np.arange(16), np.full(16, bad, np.float32))
    assert set(sampler.draw(memory, 500, rng, 0.0).tolist()) == set(range(5))


def test_errors_stay_with_their_steps_while_episodes_come_and_go():
    memory, sampler, rng = filled([5] * 4, capacity=20), ErrorEpisodeSampler(1.0), np.random.default_rng(0)
    errors = np.arange(100, dtype=np.float32)
    replay(sampler, sampler.sample(memory, 200, rng), errors=errors)
    for _ in range(3):
        added(memory, 5)
    assert memory.first_step == 15
    np.testing.assert_allclose(means_of(sampler, memory), [17.0, 17.0, 17.0, 17.0])  # the new ones count as the largest
    sampler.feedback(np.array([3, 21]), np.array([5.0, 7.0], np.float32))  # of a step that is gone, and of one that is there
    np.testing.assert_allclose(means_of(sampler, memory), [17.0, 7.0, 17.0, 17.0])


def means_of(sampler, memory):
    sampler._follow(memory)
    return sampler._means(memory)


@pytest.mark.parametrize("make", [NewestEpisodeSampler, lambda: ErrorEpisodeSampler(0.7)])
def test_steps_under_new_numbers_and_a_saved_state(make):
    memory, sampler, rng = filled([5, 3, 4]), make(), np.random.default_rng(0)
    sampler.sample(memory, 12, rng)
    sampler.feedback(np.arange(12), np.arange(12, dtype=np.float32))
    twin = make()
    twin.load_state_dict(sampler.state_dict())
    samples = [one.sample(memory, 40, np.random.default_rng(2)).steps.tolist() for one in (sampler, twin)]
    assert samples[0] == samples[1]
    sampler.renumber(np.array([0, 1, 2, 3, 4, 8, 9, 10, 11]), 3)  # the middle episode is lost
    if isinstance(sampler, ErrorEpisodeSampler):
        assert (sampler._first, sampler._errors.tolist()) == (3, [0, 1, 2, 3, 4, 8, 9, 10, 11])
    else:
        assert sampler.state_dict() == {"replayed": 12}


@pytest.mark.parametrize("errors", [np.zeros((2, 2)), np.array([0.0, np.nan])])
def test_a_saved_state_that_cannot_be_one_is_refused(errors):
    with pytest.raises(ValueError, match="not a list of numbers"):
        ErrorEpisodeSampler(0.5).load_state_dict({"first": 0, "errors": errors})


def test_errors_of_steps_that_were_never_stored_count_for_nothing():
    memory, sampler = filled(LENGTHS), ErrorEpisodeSampler(0.5)
    sampler.load_state_dict({"first": 90, "errors": np.arange(40.0)})
    assert set(sampler.draw(memory, 500, np.random.default_rng(0), 0.0).tolist()) == set(range(5))


# ---------------------------------------------------------------------- as a setting

QUICK = {"seed": 0, "learning_starts": 60, "eval_every": 0, "hidden_sizes": (8,), "batch_size": 8, "train_freq": 2}


@pytest.mark.parametrize("choice", ["newest", "errors"])
def test_a_choice_of_episodes_changes_what_is_learned_and_is_continued_exactly(choice, tmp_path):
    agent = ebu.EBU("CartPole-v1", episode_choice=choice, **QUICK).learn(150)
    agent.save(tmp_path / "whole.ebu", memory=True)
    loaded = ebu.load(tmp_path / "whole.ebu")
    uniform = ebu.EBU("CartPole-v1", **QUICK).learn(150)
    for one in (agent, loaded, uniform):
        one.learn(60)
    weights, again, other = (one.loop.learner.online.parameters for one in (agent, loaded, uniform))
    assert (weights == again).all() and not (weights == other).all()


@pytest.mark.parametrize(("algo", "settings"), [("DQN", {}), ("PrioritizedDQN", {}), ("NStepDQN", {"n_steps": 3})])
def test_a_method_of_single_steps_refuses_it_in_one_line(algo, settings):
    with pytest.raises(ebu.UserError, match="episode_choice='newest' is for methods that replay whole episodes") as caught:
        getattr(ebu, algo)("CartPole-v1", episode_choice="newest", **settings)
    assert "\n" not in str(caught.value)


def test_returns_of_whole_episodes_take_it():
    agent = ebu.NStepDQN("CartPole-v1", episode_choice="errors", n_steps="episode", **QUICK)
    assert isinstance(agent.loop.sampler, ErrorEpisodeSampler)
