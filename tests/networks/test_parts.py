"""Dictionaries and tuples with images: a convolution for each image, a layer for the rest; exact resume."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import ebu
from ebu.config import NetworkConfig
from ebu.envs.spaces import InvalidValue, ObservationSpec, describe
from ebu.memory.frames import CompressedFrames
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import PartsNetwork, build_network
from tests.networks.test_ensemble import CPU, assert_equal_to_networks_apart

SPACE = spaces.Dict(
    camera=spaces.Box(0, 255, (24, 20, 3), np.uint8),
    inner=spaces.Dict(heading=spaces.Discrete(4, start=1), depth=spaces.Box(0, 1, (1, 8, 8), np.float32)),
    speed=spaces.Box(-np.inf, np.inf, (2,), np.float32),
)
SMALL = {"learning_starts": 30, "batch_size": 8, "hidden_sizes": (8,), "features_dim": 16, "eval_every": 0, "log_every": 40}


class Drive(gymnasium.Env):
    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = SPACE
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.heading = 0, 1
        return self._observe(), {}

    def step(self, action):
        self.time, self.heading = self.time + 1, 1 + (self.heading + int(action)) % 4
        return self._observe(), float(self.heading == 3), self.time == 12, False, {}

    def _observe(self):
        camera = np.zeros(SPACE["camera"].shape, np.uint8)
        camera[self.time, self.heading] = 200
        inner = {"heading": self.heading, "depth": np.full((1, 8, 8), self.time / 12, np.float32)}
        return {"camera": camera, "inner": inner, "speed": np.array([self.time, -1], np.float32)}


def observations(count, seed=0):
    SPACE.seed(seed)
    return [SPACE.sample() for _ in range(count)]


def states(count=6, stack=1):
    encode = describe(SPACE).encode
    frames = np.stack([np.concatenate([encode(o) for o in observations(stack, seed)]) for seed in range(count)])
    return torch.from_numpy(frames)


def network(stack=1, learners=1, **settings):
    made = fastest_ensemble(build_network(describe(SPACE).spec, 3, stack, NetworkConfig(**settings)), learners, CPU)
    made.initialise(torch.Generator().manual_seed(0))
    return made


def test_the_bytes_of_a_frame_are_its_parts():
    spec, given = describe(SPACE).spec, observations(2)
    assert (spec.kind, spec.names) == ("parts", ("camera", "inner/heading", "inner/depth", "speed"))
    assert spec.shape == (1, 1, 24 * 20 * 3 + 4 * 64 + 8 + 4 * 2)
    camera, heading, depth, speed = build_network(spec, 3, 2, NetworkConfig()).split(states(1, stack=2))
    for i, observation in enumerate(given):
        assert np.array_equal(camera[0, i], observation["camera"].transpose(2, 0, 1))
        assert np.array_equal(depth[0, i], observation["inner"]["depth"])
        assert heading[0, i].tolist() == [observation["inner"]["heading"] - 1]
        assert np.array_equal(speed[0, i], observation["speed"])
    assert ObservationSpec.from_json(spec.to_json()) == spec


def test_a_lone_state_is_read_whatever_the_length_of_its_frame():
    space = spaces.Dict(b=spaces.Box(0, 255, (5, 5, 3), np.uint8), c=spaces.Discrete(9), d=spaces.Box(-1, 1, (3,), np.float32))
    description, given = describe(space), space.sample()  # 75, 8 and 12 bytes: neither aligned nor of a length in eights
    lone = torch.from_numpy(description.encode(given))[None]
    picture, category, numbers = build_network(description.spec, 2, 1, NetworkConfig(network="mlp")).split(lone)
    assert np.array_equal(picture[0, 0], given["b"].transpose(2, 0, 1))
    assert category.item() == given["c"] and np.array_equal(numbers[0, 0], given["d"])


@pytest.mark.parametrize("settings", [{}, {"layer_norm": True, "dueling": True}, {"network": "mlp"}, {"network": "minatar"}])
@pytest.mark.parametrize("stack", [1, 2])
def test_every_part_decides_and_learners_equal_networks_apart(double, settings, stack):
    made, given = network(stack, 3, **settings), states(4, stack)
    slope = torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(5))
    values, pullback = made.differentiate(given)
    pullback(slope)
    assert values.shape == (3, 4, 3)
    close = {"rtol": 1e-9, "atol": 1e-10}  # of float64 sums of a few thousand numbers of size 1
    assert_equal_to_networks_apart(made, given, values, slope, **close)
    start = 0
    for part in describe(SPACE).spec.parts:
        changed = given.clone()
        changed[0, -1, 0, start : start + part.frame_bytes] = describe_zero(part)
        start += part.frame_bytes
        assert not torch.allclose(made.values(changed)[:, 0], values[:, 0])


def describe_zero(part):
    """The bytes of zeros, or of another category."""
    frame = np.full(part.shape, 3 if part.kind == "onehot" else 0, part.dtype)
    return torch.from_numpy(frame.reshape(-1).view(np.uint8).copy())


def test_each_image_has_its_convolutions_and_the_rest_one_layer():
    made = build_network(describe(SPACE).spec, 3, 1, NetworkConfig(hidden_sizes=(32, 7), features_dim=48))
    assert isinstance(made, PartsNetwork)
    kernels = [(m.in_channels, m.out_channels, m.kernel_size[0]) for m in made.modules() if isinstance(m, nn.Conv2d)]
    assert kernels == [(3, 64, 4), (64, 64, 3), (1, 16, 3)]  # the maze's for 24 × 20, MinAtar's for 8 × 8
    rest, hidden, last = (m for m in made.modules() if isinstance(m, nn.Linear))
    assert (rest.in_features, rest.out_features) == (4 + 2, 32)
    assert (hidden.out_features, last.out_features) == (48, 3)


def test_a_dictionary_without_images_is_flattened_as_before():
    assert describe(spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(0, 1, (2,)))).spec == ObservationSpec(
        "vector", (5,), "float32"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda o: o.pop("speed"), "without the part 'speed'"),
        (lambda o: o["inner"].pop("heading"), "without the part 'inner/heading'"),
        (lambda o: o.update(speed=np.array([np.nan, 0], np.float32)), "not finite in 'speed'"),
        (lambda o: o.update(camera=np.zeros((3, 3, 3), np.uint8)), r"instead of uint8 \[24, 20, 3\]"),
    ],
)
def test_an_observation_of_another_form_is_refused(change, words):
    observation = observations(1)[0]
    change(observation)
    with pytest.raises(InvalidValue, match=words):
        describe(SPACE).encode(observation)


def test_a_part_that_no_network_reads_is_refused_with_a_way_out():
    with pytest.raises(ebu.UserError, match="FilterObservation"):
        describe(spaces.Dict(camera=SPACE["camera"], words=spaces.Sequence(spaces.Discrete(2))))


def test_a_run_is_compressed_saved_and_resumed_exactly(tmp_path):
    def trained(folder, stop):
        agent = ebu.EBU(Drive(), seed=1, stack=2, network="minatar", **SMALL)
        agent.learn(80, run=folder, callback=lambda event: event.step < stop)
        return ebu.resume(folder, env=Drive(), announce=lambda text: None)

    straight, halved = trained(tmp_path / "straight", 10**9), trained(tmp_path / "halved", 40)
    assert straight.loop.updates == halved.loop.updates > 10
    assert torch.equal(straight.loop.learner.online.parameters, halved.loop.learner.online.parameters)
    memory = straight.loop.memory
    assert isinstance(memory._frames, CompressedFrames)
    straight.save(tmp_path / "p.ebu")
    loaded, observation = ebu.load(tmp_path / "p.ebu", env=Drive()), observations(1)[0]
    assert loaded.predict(observation)[0] == straight.predict(observation)[0]
