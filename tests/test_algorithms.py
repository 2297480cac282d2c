import pytest

import ebu
from ebu.agent import AGENTS
from ebu.algorithms.dqn import minibatches_ahead
from ebu.presets import configure
from ebu.registry import methods

QUICK = {"seed": 0, "learning_starts": 100, "eval_every": 0, "sync_interval": 200, "hidden_sizes": (16,), "batch_size": 16}


def test_every_algorithm_has_its_agent_and_its_page():
    import pathlib

    assert list(AGENTS) == list(methods())
    pages = pathlib.Path(__file__).parent.parent / "docs" / "algorithms"
    for name in methods():
        assert (pages / f"{name}.md").is_file(), f"docs/algorithms/{name}.md is missing"


@pytest.mark.parametrize("name", list(methods()))
@pytest.mark.parametrize("options", [{"dueling": True}, {"tau": 0.1, "learning_rate_schedule": "linear"}], ids=str)
def test_every_method_takes_every_option(name, options):
    agent = AGENTS[name]("CartPole-v1", **QUICK, **options).learn(220)
    assert agent.loop.updates > 0
    assert ebu.evaluate(agent, episodes=1).mean > 0


@pytest.mark.parametrize("name", list(methods()))
def test_double_q_changes_what_every_method_but_retrace_learns(name):
    apart = {"learning_rate": 0.03, "tau": 1.0, "target_update_interval": 90, "betas": (0.2, 0.8)}  # θ and θ⁻ disagree
    apart["trace_lambda"] = 0.5
    plain = AGENTS[name]("CartPole-v1", double_q=False, **QUICK, **apart).learn(400)
    double = AGENTS[name]("CartPole-v1", double_q=True, **QUICK, **apart).learn(400)
    same = (plain.loop.learner.online.parameters == double.loop.learner.online.parameters).all()
    assert bool(same) == (name == "retrace")  # whose policy comes from the online network anyway


@pytest.mark.parametrize("name", [n for n in methods() if n != "n-step"])
def test_methods_on_whole_episodes_and_steps_run_on_images_with_stacks(name):
    agent = AGENTS[name](
        "maze",
        env_args=("size=3", "wall_density=0.0"),
        network="minatar",
        stack=2,
        betas=(0.0, 1.0),
        learning_starts=50,
        batch_size=8,
        eval_every=0,
    ).learn(120)
    assert agent.loop.updates > 0


@pytest.mark.parametrize(
    ("algo", "settings", "words"),
    [
        ("ebu", {"beta": 1.5}, "beta must be between 0 and 1"),
        ("ebu", {"beta": float("nan")}, "beta must be between 0 and 1"),
        ("adaptive-ebu", {"betas": ()}, "betas must be one or more numbers"),
        ("adaptive-ebu", {"betas": (0.5, 2.0)}, "betas must be one or more numbers"),
        ("ensemble-q", {"trace_lambdas": (0.5, 1.2)}, "trace_lambdas must be one or more numbers"),
        ("ensemble-q", {"trace_lambdas": 0.5}, "trace_lambdas must be a tuple"),
        ("ensemble-q", {"initial_horizon": 0.0}, "initial_horizon must be greater than 0 and at most 1"),
        ("ensemble-q", {"gate": -1}, "gate must be at least 0"),
        ("ensemble-q", {"return_bound": -1}, "return_bound must be at least 0"),
        ("ensemble-q", {"prior_scale": -1}, "prior_scale must be at least 0"),
        ("ensemble-q", {"bootstrap": "median"}, "bootstrap must be one of ensemble, own"),
        ("retrace", {"trace_lambda": -0.1}, "trace_lambda must be between 0 and 1"),
        ("n-step", {"n_steps": 0}, "n_steps must be a whole number of at least 1"),
        ("n-step", {"n_steps": "game"}, "n_steps must be"),
        ("per", {"buffer_size": 16, "batch_size": 32}, "buffer_size .16. must hold at least one minibatch"),
        ("ebu", {"buffer_size": 0}, "buffer_size must be a whole number of at least 1"),
        ("dqn", {"whole_episode": True}, "whole_episode is for methods that replay whole episodes, such as ebu; dqn does not"),
        ("per", {"whole_episode": True}, "whole_episode is for methods that replay whole episodes"),
        ("optimality-tightening", {"whole_episode": True}, "whole_episode is for methods that replay whole episodes"),
        ("optimality-tightening", {"tightening_neighbours": 0}, "tightening_neighbours must be"),
    ],
)
def test_impossible_settings_are_refused_before_training_in_one_line(algo, settings, words):
    with pytest.raises(ebu.UserError, match=words) as caught:
        AGENTS[algo]("CartPole-v1", **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["dqn", "n-step"])
@pytest.mark.parametrize(
    ("settings", "ahead"),
    [
        ({}, 8),
        ({"stack": 1}, 8),
        ({"tau": 0.5}, 1),
        ({"double_q": True}, 1),
        ({"target_update_interval": 100, "train_freq": 1}, 1),
    ],
    ids=str,
)
def test_single_steps_are_drawn_ahead_while_their_targets_stay_the_same(name, settings, ahead):
    hard = {"tau": 1.0, "double_q": False, "target_update_interval": 2_000, "train_freq": 1, "stack": 2}
    maze = {"env_args": ("size=3", "wall_density=0.0", "max_episode_steps=20"), "network": "minatar", "batch_size": 4}
    agent = AGENTS[name]("maze", preset="quick", **{**QUICK, **maze, **hard, **settings})
    loop, drawn = agent.loop, []
    sample = loop.sampler.sample
    loop.sampler.sample = lambda memory, wanted, rng, progress: drawn.append(wanted) or sample(memory, wanted, rng, progress)
    agent.learn(160)
    assert loop.updates > 10 and set(drawn) == {4 * ahead}
    assert len(drawn) == -(-loop.updates // ahead)


@pytest.mark.parametrize(("env", "ahead"), [("maze", 1), ("ALE/Breakout-v5", 8)])
def test_the_papers_settings_draw_as_they_did(env, ahead):
    """The rows of results/ were made with these."""
    assert minibatches_ahead(configure("dqn", env, preset="paper")) == ahead


def test_prioritised_replay_scales_the_step_size_once():
    agent = ebu.PrioritizedDQN("CartPole-v1", learning_rate=1e-3, priority_lr_scale=0.25)
    assert agent.loop.config.learner.learning_rate == pytest.approx(2.5e-4)
    assert agent.config.learner.learning_rate == 1e-3


def test_prioritised_replay_learns_its_priorities_from_the_errors():
    agent = ebu.PrioritizedDQN("CartPole-v1", **QUICK).learn(400)
    heap = agent.loop.sampler._heap
    assert len(heap) > 0
    assert len(set(heap.state_dict()["priorities"].tolist())) > 10


def test_retrace_records_the_probability_of_each_action():
    agent = ebu.Retrace("CartPole-v1", exploration_initial_eps=0.4, exploration_final_eps=0.4, **QUICK).learn(200)
    memory = agent.loop.memory
    behaviour = memory.read(*memory_pieces(memory)).behaviour
    assert {round(p, 5) for p in behaviour.tolist()} == {0.2, 0.8}


def memory_pieces(memory):
    import numpy as np

    episodes = np.arange(memory.first_episode, memory.end_episode)
    return episodes, np.zeros_like(episodes), memory.lengths(episodes)
