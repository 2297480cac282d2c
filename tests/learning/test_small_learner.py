"""One learner with a small network: the steps of the general learner, chosen where it applies and nowhere else."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch

from ebu.config import LearnerConfig, override
from ebu.envs.spaces import ObservationSpec
from ebu.learning.blueprint import Blueprint
from ebu.learning.learner import LocalLearner
from ebu.learning.losses import LOSSES
from ebu.learning.optimisers import OPTIMISERS
from ebu.learning.small_learner import SmallLearner
from ebu.networks.small_convolution import SmallConvolution
from ebu.networks.small_mlp import SmallMLP
from ebu.presets import configure
from tests.learning.test_learner import CPU, IMAGE, VECTOR, make_batch, make_learner
from tests.tolerance import RUN

PICTURE = ObservationSpec("image", (2, 10, 10), "uint8", scale=1 / 255)
SPECS = {"perceptron": VECTOR, "convolution": PICTURE}


def make_small(seed=0, correction=None, spec=VECTOR, **settings):
    general = make_learner(spec, seed=seed, correction=correction, **settings)
    small = SmallLearner(general.online.skeleton, LearnerConfig(**settings), correction)
    small.initialise(torch.Generator().manual_seed(seed), "torch")
    return small, general


def assert_same_steps(small, general, batches):
    for batch in batches:
        found, expected = small.update(batch), general.update(batch)
        for name in ("loss", "values", "errors"):
            torch.testing.assert_close(torch.from_numpy(getattr(found, name)), getattr(expected, name), **RUN)
        assert found.first_errors.tolist() == found.errors[0].tolist()
        for name in ("total_loss", "mean_value"):
            torch.testing.assert_close(torch.tensor(getattr(found, name)), getattr(expected, name), **RUN)
        torch.testing.assert_close(small.online.parameters, general.online.parameters, **RUN)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("optimizer", OPTIMISERS)
def test_steps_equal_those_of_the_general_learner(double, optimizer, loss, spec):
    small, general = make_small(spec=spec, optimizer=optimizer, loss=loss, optimizer_eps=1e-2)
    assert_same_steps(small, general, [make_batch(spec, seed=turn, size=size) for turn, size in enumerate((16, 32, 7))])


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_weights_a_longest_gradient_and_a_correction_act_as_in_the_general_learner(double, spec):
    def correct(targets, values, columns):
        return targets + 0.5 * values + columns["shift"]

    small, general = make_small(spec=spec, correction=correct, max_grad_norm=0.1, loss="mse")
    batch = make_batch(spec, weights=torch.linspace(0.0, 2.0, 16))
    assert_same_steps(small, general, [replace(batch, columns={"shift": torch.full((1, 16), 2.0)})] * 2)


@pytest.mark.filterwarnings("error")
def test_a_loss_beyond_all_numbers_is_no_warning():
    """The loop ends the run in one line."""
    small, _ = make_small(loss="mse")
    batch = make_batch()
    for scale in (1e30, float("inf")):
        update = small.update(replace(batch, targets=batch.targets * scale))
        assert not math.isfinite(update.total_loss)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_restored_learner_continues_as_if_never_stopped(spec):
    (learner, _), (other, _) = make_small(seed=0, spec=spec), make_small(seed=1, spec=spec)
    for turn in range(3):
        learner.update(make_batch(spec, seed=turn))
        learner.update_target()
    other.load_state_dict(copy.deepcopy(learner.state_dict()))
    for turn in range(3, 6):
        learner.update(make_batch(spec, seed=turn))
        other.update(make_batch(spec, seed=turn))
    assert torch.equal(learner.online.parameters, other.online.parameters)
    assert torch.equal(learner.target.parameters, other.target.parameters)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("optimizer", OPTIMISERS)
def test_the_state_of_a_general_learner_is_continued(double, optimizer, spec):
    """A checkpoint of a version that had no small learner."""
    small, general = make_small(spec=spec, optimizer=optimizer, optimizer_eps=1e-2)
    for turn in range(3):
        general.update(make_batch(spec, seed=turn))
    small.load_state_dict(copy.deepcopy(general.state_dict()))
    assert_same_steps(small, general, [make_batch(spec, seed=turn) for turn in range(3, 6)])


def blueprint(spec=VECTOR, learners=1, **settings):
    return Blueprint(
        override(configure("ebu", env="CartPole-v1", hidden_sizes=(64, 64), batch_size=32), **settings), spec, 3, 1, learners
    )


def test_it_is_chosen_for_one_learner_with_a_small_perceptron_on_the_cpu():
    chosen = blueprint().build(1, CPU)
    assert type(chosen) is SmallLearner and type(chosen.online) is type(chosen.target) is SmallMLP


def test_it_is_chosen_for_one_learner_with_a_small_convolution_on_the_cpu():
    chosen = blueprint(PICTURE).build(1, CPU)
    assert type(chosen) is SmallLearner and type(chosen.online) is type(chosen.target) is SmallConvolution


@pytest.mark.parametrize(
    ("settings", "learners", "device"),
    [
        ({"learners": 3}, 3, CPU),
        ({"learners": 3}, 1, CPU),  # a rank's share: its numbers are those of one process
        ({}, 1, torch.device("meta")),
        ({"whole_episode": True}, 1, CPU),
        ({"batch_size": 65}, 1, CPU),
        ({"dueling": True}, 1, CPU),
        ({"spec": IMAGE}, 1, CPU),
        ({"spec": PICTURE, "learners": 3}, 3, CPU),
        ({"spec": PICTURE, "dueling": True}, 1, CPU),
        ({"spec": PICTURE, "layer_norm": True}, 1, CPU),
    ],
    ids=str,
)
def test_it_is_not_chosen_elsewhere(settings, learners, device):
    assert type(blueprint(**settings).build(learners, device)) is LocalLearner


def test_the_default_settings_of_small_environments_keep_the_general_learner():
    """Rows of CartPole in results/ were made with it."""
    whole = Blueprint(configure("ebu", env="CartPole-v1"), VECTOR, 2, 1, 1)
    assert type(whole.build(1, CPU)) is LocalLearner
