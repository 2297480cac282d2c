"""The plain module and the ONNX file compute from raw observations what the agent computes from stored ones."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import ebu
from tests.networks import own
from tests.networks.test_parts import SPACE

SMALL = {"hidden_sizes": (8, 6), "eval_every": 0, "batch_size": 8}


class Any(gymnasium.Env):
    """Observations of a space, whatever is done."""

    metadata = {"render_modes": []}  # noqa: RUF012
    action_space = spaces.Discrete(3)

    def __init__(self, space):
        self.observation_space = space


CASES = {
    "vector": (spaces.Box(-1, 1, (2, 2), np.float64), {}),
    "layer norm, dueling": (spaces.Box(-1, 1, (4,), np.float32), {"layer_norm": True, "dueling": True}),
    "category": (spaces.Discrete(7, start=-2), {}),
    "many categories": (spaces.Discrete(5000), {}),
    "categories": (spaces.MultiDiscrete([3, 4]), {}),
    "binary": (spaces.MultiBinary(5), {}),
    "channels last, stacked": (spaces.Box(0, 255, (10, 12, 3), np.uint8), {"stack": 3}),
    "channels last": (spaces.Box(0, 255, (10, 12, 3), np.uint8), {"layer_norm": True}),
    "channels first": (spaces.Box(0, 255, (2, 28, 28), np.uint8), {}),
    "grey, stacked": (spaces.Box(0, 255, (84, 84), np.uint8), {"stack": 4}),
    "image as mlp": (spaces.Box(0, 255, (6, 6, 3), np.uint8), {"network": "mlp", "stack": 2}),
    "dictionary": (spaces.Dict(a=spaces.Discrete(3), b=spaces.MultiDiscrete([2, 3]), c=spaces.Box(-1, 1, (2,))), {}),
    "tuple": (spaces.Tuple([spaces.MultiBinary(2), spaces.Box(-1, 1, (3,))]), {}),
    "parts": (SPACE, {}),
    "parts, stacked": (SPACE, {"stack": 2, "network": "minatar"}),
    "own": (spaces.Box(-1, 1, (4,), np.float32), {"network": own.Attention}),
}


def sampled(space, count, seed=0):
    space.seed(seed)
    return [space.sample() for _ in range(count)]


def tensors(space, observations, lead):
    """Observations as one tensor for each part."""
    if isinstance(space, spaces.Dict):
        return [t for key, part in space.spaces.items() for t in tensors(part, [o[key] for o in observations], lead)]
    if isinstance(space, spaces.Tuple):
        return [t for i, part in enumerate(space.spaces) for t in tensors(part, [o[i] for o in observations], lead)]
    array = np.stack([np.asarray(o) for o in observations])
    return [torch.from_numpy(array.reshape(*lead, *array.shape[1:]))]


def case(name):
    """An agent, four states as raw observations, and the agent's values of them."""
    space, settings = CASES[name]
    agent = ebu.AdaptiveEBU(Any(space), betas=(0.0, 0.5), **SMALL, **settings)
    agent.loop.rotation.current = 1
    agent.loop.rotation.episode_ended(1.0)  # the second learner leads
    stack = agent.interface.stack
    observations = sampled(space, 4 * stack)
    values = []
    for i in range(4):
        frames = [agent._encode(o) for o in observations[i * stack : (i + 1) * stack]]
        values.append(agent.policy.values(np.concatenate(frames) if stack > 1 else frames[0]))
    return agent, tensors(space, observations, (4, stack) if stack > 1 else (4,)), np.stack(values)


def assert_same(found, expected):
    """Both are float32 sums of at most a few thousand products of size 1 along each of three layers."""
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_the_module_gives_the_leader_s_values_of_raw_observations(name):
    agent, observations, values = case(name)
    module = agent.module()
    assert_same(module(*observations).numpy(), values)
    agent.loop.learner.online.parameters.zero_()
    assert_same(module(*observations).numpy(), values)  # it shares nothing with the agent


ONNX = ["category", "channels last, stacked"]  # the others take as long, and are run with the slow tests


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", [n if n in ONNX else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_onnx_runtime_gives_the_same_values_for_any_batch(name, tmp_path, caplog):
    onnxruntime = pytest.importorskip("onnxruntime")
    agent, observations, values = case(name)
    agent.export(tmp_path / "policy.onnx")
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    names = agent.module().names
    assert [i.name for i in session.get_inputs()] == names
    for count in (4, 1):
        inputs = {name: x[:count].numpy() for name, x in zip(names, observations, strict=True)}
        assert_same(session.run(["values"], inputs)[0], values[:count])


def test_a_loaded_policy_has_its_module(tmp_path):
    agent = ebu.EBU("CartPole-v1", **SMALL)
    agent.save(tmp_path / "p.ebu")
    state = torch.tensor([[0.1, 0.2, -0.1, 0.0]])
    assert torch.equal(ebu.load(tmp_path / "p.ebu").module()(state), agent.module()(state))


def test_what_is_missing_is_said_in_one_line(tmp_path, monkeypatch):
    agent = ebu.EBU("CartPole-v1", **SMALL)
    with pytest.raises(ebu.RunFailure, match="there is no folder"):
        agent.export(tmp_path / "missing" / "policy.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ebu.UserError, match=r"pip install 'episodic-backward-update\[onnx\]'"):
        agent.export(tmp_path / "policy.onnx")


def test_another_kind_of_file_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ebu.UserError, match=r"export writes ONNX: name the file \*\.onnx, not 'policy\.pt'"):
        ebu.DQN("CartPole-v1", seed=0).export(tmp_path / "policy.pt")
    assert list(tmp_path.iterdir()) == []
