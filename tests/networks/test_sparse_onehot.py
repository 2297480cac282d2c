"""Observations of very many categories: the values of a one-hot vector times the weights, without the vector."""

import tracemalloc

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import ebu
from ebu.config import NetworkConfig
from ebu.envs.observation import SPARSE_ABOVE_CATEGORIES, ObservationSpec
from ebu.networks.ensemble import Ensemble
from ebu.networks.ensemble_mlp import EnsembleMLP
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import Dueling, OneHot, Places, SparseLinear, build_network
from tests.tolerance import assert_differentiates_as, assert_within, value_bound

CPU = torch.device("cpu")
MANY = ObservationSpec("onehot", (3,), "int64", (SPARSE_ABOVE_CATEGORIES, 7, 90))
LAYERS = [(16, 8), (16,)]


def dense(skeleton):
    """The same network, names of weights included, on the one-hot vector itself."""
    if isinstance(skeleton, Places):
        return OneHot(MANY.categories)
    if isinstance(skeleton, SparseLinear):
        with torch.device("meta"):
            return torch.nn.Linear(skeleton.in_features, skeleton.out_features)
    if isinstance(skeleton, Dueling):
        skeleton.value, skeleton.advantage = dense(skeleton.value), dense(skeleton.advantage)
        return skeleton
    if isinstance(skeleton, torch.nn.Sequential):
        return torch.nn.Sequential(*map(dense, skeleton))
    return skeleton


def pair(learners, hidden_sizes, dueling):
    def build():
        return build_network(MANY, 3, 1, NetworkConfig(hidden_sizes=hidden_sizes, dueling=dueling))

    sparse, plain = fastest_ensemble(build(), learners, CPU), Ensemble(dense(build()), learners, CPU)
    sparse.initialise(torch.Generator().manual_seed(0))
    plain.load_named_tensors(sparse.named_tensors(0))  # the same names and shapes
    plain.parameters.copy_(sparse.parameters)
    return sparse, plain


def states(count, seed=0):
    rng = np.random.default_rng(seed)
    drawn = np.stack([rng.integers(n, size=count) for n in MANY.categories], 1)
    drawn[count // 2 :, 0] = drawn[0, 0]  # some categories occur several times in a batch
    return torch.from_numpy(drawn)


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("hidden_sizes", LAYERS, ids=str)
@pytest.mark.parametrize("learners", [1, 3])
def test_values_and_gradients_are_those_of_the_one_hot_vector(double, learners, hidden_sizes, dueling):
    sparse, plain = pair(learners, hidden_sizes, dueling)
    assert isinstance(sparse, EnsembleMLP) is not dueling
    for seed in range(3):  # the gradient of the batch before must be gone
        x = states(9, seed)
        slope = torch.randn(learners, 9, 3, generator=torch.Generator().manual_seed(seed))
        # The values of a dueling network are differences, for which the bounds are too narrow; numbers are of the order of 1.
        assert_differentiates_as(sparse, plain, x, slope, slack=1e-12 if dueling else 0.0)


@pytest.mark.parametrize("hidden_sizes", LAYERS, ids=str)
def test_values_of_one_state_follow_the_weights_as_they_change(double, hidden_sizes):
    sparse, plain = pair(2, hidden_sizes, False)
    x = states(1)
    quick = sparse.state_values(1)
    for _ in range(2):
        assert_within(quick(x[0].numpy()), plain.values(x)[1, 0], value_bound(plain, x)[1, 0])
        assert_within(sparse.batch_values(1)(x.numpy()), plain.values(x)[1], value_bound(plain, x)[1])
        for network in (sparse, plain):
            network.parameters.mul_(1.5)


def test_small_spaces_keep_the_dense_vector_and_with_it_their_last_digits():
    for count, first in ((16, OneHot), (SPARSE_ABOVE_CATEGORIES, OneHot), (SPARSE_ABOVE_CATEGORIES + 1, Places)):
        spec = ObservationSpec("onehot", (1,), "int64", (count,))
        assert isinstance(build_network(spec, 2, 1, NetworkConfig())[0], first)


class Line(gymnasium.Env):
    """One observation of very many."""

    observation_space = spaces.Discrete(200_000)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = int(self.np_random.integers(100, 199_900)), 0
        return self.place, {}

    def step(self, action):
        self.place += 2 * int(action) - 1
        self.time += 1
        return self.place, float(action), False, self.time == 50, {}


class NothingLarger(TorchDispatchMode):
    """Fails at the first operation whose result has more elements."""

    def __init__(self, elements):
        super().__init__()
        self.elements = elements

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            assert not isinstance(leaf, torch.Tensor) or leaf.numel() <= self.elements, f"{function} made {leaf.shape}"
        return result


def test_two_hundred_thousand_categories_are_learned_from_without_their_vectors():
    """Five states as one-hot vectors would be more than all weights together."""
    agent = ebu.EBU(Line(), learning_starts=100, hidden_sizes=(4, 4), seed=0)
    with NothingLarger(agent.loop.learner.online.parameters.numel()):
        agent.learn(160)
    assert agent.loop.updates > 50


def test_acting_takes_no_vector_of_all_categories():
    agent = ebu.EBU(Line(), hidden_sizes=(4, 4), seed=0)
    values = agent.policy.values
    state = np.array([123_456])
    values(state)
    tracemalloc.start()  # counts the memory of NumPy's arrays, not that of tensors
    with NothingLarger(199_999):
        values(state)
    assert tracemalloc.get_traced_memory()[1] < 200_000
    tracemalloc.stop()
