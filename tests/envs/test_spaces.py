"""Which observations are supported, how each is stored, and the line that says why one is not."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ebu
from ebu.config import NetworkConfig
from ebu.envs.spaces import InvalidValue, count_actions, describe
from ebu.errors import UserError
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import build_network

INF = np.inf


def image(shape, dtype=np.uint8, low=0, high=255):
    return spaces.Box(low, high, shape, dtype)


def values_of(observations, frames, actions=3):
    """Through the network that is chosen for them."""
    network = fastest_ensemble(build_network(observations.spec, actions, 1, NetworkConfig()), 1, torch.device("cpu"))
    network.initialise(torch.Generator().manual_seed(0))
    with torch.no_grad():
        return network.values(torch.from_numpy(np.stack(frames)))[0]


# ---------------------------------------------------------------------- vectors


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1.0, 1.0, (4,), np.float32),
        spaces.Box(-1.0, 1.0, (4,), np.float64),
        spaces.Box(-5, 5, (4,), np.int32),
        spaces.Box(0, 255, (4,), np.uint8),
        spaces.Box(-INF, INF, (2, 2), np.float32),
        spaces.Box(0, 1, (1, 4), np.float32),
        spaces.Box(0, 1, (2, 2, 1), np.float32),
        spaces.MultiBinary(4),
        spaces.MultiBinary((2, 2)),
    ],
    ids=str,
)
def test_vectors_of_any_dtype_are_stored_as_flat_single_precision(space):
    observations = describe(space)
    assert (observations.spec.kind, observations.spec.shape, observations.spec.dtype) == ("vector", (4,), "float32")
    space.seed(0)
    sample = space.sample()
    frame = observations.encode(sample)
    assert frame.dtype == np.float32 and frame.shape == (4,)
    np.testing.assert_allclose(frame, np.asarray(sample, np.float64).reshape(-1), rtol=1e-6)
    assert not np.shares_memory(frame, sample)
    assert observations.spec.features == 4 and observations.spec.can_be_damaged


def test_a_single_number_is_a_vector_of_one():
    observations = describe(spaces.Box(-1.0, 1.0, (), np.float32))
    assert observations.encode(np.float32(0.5)).tolist() == [0.5]


# ---------------------------------------------------------------------- images


@pytest.mark.parametrize(
    ("shape", "stored"),
    [
        ((84, 84, 3), (3, 84, 84)),
        ((210, 160, 3), (3, 210, 160)),
        ((84, 84, 1), (1, 84, 84)),
        ((7, 7, 3), (3, 7, 7)),
        ((10, 10, 10), (10, 10, 10)),
        ((3, 84, 84), (3, 84, 84)),
        ((4, 84, 84), (4, 84, 84)),
        ((1, 28, 28), (1, 28, 28)),
        ((2, 28, 28), (2, 28, 28)),
        ((84, 84), (1, 84, 84)),
        ((8, 8), (1, 8, 8)),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.int16, np.bool_])
def test_images_are_stored_with_their_channels_first(shape, stored, dtype):
    space = image(shape, dtype, 0, 1) if dtype == np.bool_ else image(shape, dtype)
    observations = describe(space)
    assert (observations.spec.kind, observations.spec.shape) == ("image", stored)
    assert observations.spec.dtype == ("uint8" if dtype in (np.uint8, np.bool_) else "float32")
    space.seed(0)
    sample = space.sample()
    frame = observations.encode(sample)
    assert frame.shape == stored and frame.dtype == observations.spec.dtype and frame.flags["C_CONTIGUOUS"]
    picture = np.asarray(sample)
    if len(shape) == 2:
        expected = picture[None]
    else:
        expected = picture if shape == stored and shape[0] != shape[2] else picture.transpose(2, 0, 1)
    np.testing.assert_allclose(frame, expected.astype(np.float64), rtol=1e-6)


@pytest.mark.parametrize("shape", [(84, 84, 1), (84, 84, 3), (3, 84, 84), (84, 84), (6,)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_stored_frame_never_shares_memory_with_the_environment_s_array(shape, dtype):
    """Environments reuse their arrays; a frame that is a view would change after it was stored."""
    sample = np.zeros(shape, dtype)
    assert not np.shares_memory(describe(image(shape, dtype)).encode(sample), sample)


@pytest.mark.parametrize(
    ("space", "scale"),
    [
        (image((8, 8, 3)), 1 / 255),
        (image((8, 8, 3), np.float32, 0.0, 1.0), 1.0),
        (image((8, 8, 3), np.float32, -1.0, 1.0), 1.0),
        (image((8, 8, 3), np.float32, -10.0, 5.0), 1 / 10),
        (image((8, 8, 3), np.float32, -INF, INF), 1.0),
        (image((8, 8, 3), np.float32, 0.0, INF), 1.0),
        (image((8, 8, 3), np.bool_, 0, 1), 1.0),
        (image((8, 8, 3), np.uint8, 0, 10), 1 / 10),
    ],
)
def test_bounded_images_are_brought_to_about_one(space, scale):
    assert describe(space).spec.scale == pytest.approx(scale)


def test_bytes_cannot_be_damaged_and_floats_can():
    assert not describe(image((8, 8, 3))).spec.can_be_damaged
    assert describe(image((8, 8, 3), np.float32)).spec.can_be_damaged
    assert not describe(spaces.Discrete(3)).spec.can_be_damaged


@settings(max_examples=60)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sampled_from([np.uint8, np.float32, np.int64, np.bool_]))
@example([2, 5], np.uint8)
@example([1, 9], np.uint8)
@example([3, 2, 20], np.uint8)
@example([20, 2, 3], np.float32)
@example([64, 66, 3], np.uint8)
@example([1, 1, 1], np.uint8)
def test_any_box_can_be_learned_from_with_the_network_chosen_for_it(shape, dtype):
    space = spaces.Box(0, 1, tuple(shape), dtype)
    observations = describe(space)
    frames = [observations.encode(np.full(shape, value, dtype)) for value in (0, 1)]
    values = values_of(observations, frames)
    assert values.shape == (2, 3)
    assert not torch.equal(values[0], values[1])


# ---------------------------------------------------------------------- categories


def test_discrete_observations_are_categories():
    observations = describe(spaces.Discrete(5))
    assert observations.spec.categories == (5,) and observations.spec.features == 5
    assert observations.encode(3).tolist() == [3]
    assert observations.encode(np.int64(3)).dtype == np.int64


def test_discrete_observations_may_start_anywhere():
    observations = describe(spaces.Discrete(5, start=-2))
    assert [observations.encode(x).item() for x in range(-2, 3)] == [0, 1, 2, 3, 4]
    assert len(values_of(observations, [observations.encode(x) for x in range(-2, 3)]).unique(dim=0)) == 5


def test_multi_discrete_observations_are_several_categories():
    observations = describe(spaces.MultiDiscrete([[2, 3], [4, 5]]))
    assert observations.spec.categories == (2, 3, 4, 5) and observations.spec.features == 14
    assert observations.encode(np.array([[1, 2], [3, 4]])).tolist() == [1, 2, 3, 4]
    shifted = describe(spaces.MultiDiscrete([2, 3], start=[10, -1]))
    assert shifted.encode(np.array([11, -1])).tolist() == [1, 0]
    assert values_of(shifted, [shifted.encode(np.array([11, 1]))]).shape == (1, 3)


# ---------------------------------------------------------------------- composites


@pytest.mark.parametrize(
    "space",
    [
        spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)]),
        spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(-1, 1, (2, 1), np.float64), c=spaces.MultiBinary(1)),
        spaces.Dict(inner=spaces.Dict(x=spaces.Discrete(4)), y=spaces.Box(0, 1, (1,), np.float32)),
        spaces.Tuple([spaces.Box(0, 255, (5,), np.uint8)]),
    ],
    ids=str,
)
def test_dictionaries_and_tuples_are_flattened_where_they_can_be(space):
    observations = describe(space)
    space.seed(0)
    sample = space.sample()
    frame = observations.encode(sample)
    assert observations.spec.kind == "vector" and frame.dtype == np.float32
    assert frame.shape == observations.spec.shape == (spaces.flatdim(space),)
    np.testing.assert_allclose(frame, spaces.flatten(space, sample), rtol=1e-6)


def test_a_flattened_tuple_is_one_hot_and_numbers():
    observations = describe(spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)]))
    assert observations.encode((1, np.array([0.5, -0.5], np.float32))).tolist() == [0, 1, 0, 0.5, -0.5]


NESTED = spaces.Dict(
    inner=spaces.Dict(x=spaces.Discrete(4, start=-1), m=spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [2, 0]])),
    t=spaces.Tuple([spaces.MultiBinary((2, 2)), spaces.Box(0, 255, (5,), np.uint8)]),
    n=spaces.Box(-5, 5, (), np.int32),
    h=spaces.Box(-1, 1, (3,), np.float16),
    words=spaces.Text(3, charset="abc"),
)


def test_the_vector_of_a_dictionary_has_the_bytes_of_gymnasium_s_flatten():
    observations = describe(NESTED)
    NESTED.seed(0)
    for sample in (NESTED.sample() for _ in range(50)):
        assert observations.encode(sample).tobytes() == spaces.flatten(NESTED, sample).astype(np.float32).tobytes()


KEYS = spaces.Dict(pos=spaces.Box(-1, 1, (2,), np.float32), key=spaces.Discrete(2), colour=spaces.Box(0, 255, (2,), np.uint8))
A_KEY = {"pos": np.zeros(2, np.float32), "key": 1, "colour": np.zeros(2, np.uint8)}


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"key": -1}, r"-1, which is not in Discrete\(2\), in its part 'key'"),
        ({"key": 2}, "2, which is not in"),
        ({"key": [[0]]}, "instead of a whole number"),
        ({"key": True}, "True instead of a whole number"),
        ({"colour": np.array([300.0, -4.0])}, r"numbers that uint8 cannot hold, in its part 'colour'"),
        (
            {"pos": np.zeros((1, 2, 1), np.float32)},
            r"float32 \[1, 2, 1\] instead of float32 \[2\], in its part 'pos'",
        ),
        ({"pos": np.zeros((1, 2), np.float32)}, r"\[1, 2\] instead of"),
        ({"pos": "far"}, "'far' instead of numbers"),
    ],
    ids=str,
)
def test_a_part_that_its_space_does_not_promise_is_refused_by_name(part, words):
    encode = describe(KEYS).encode
    assert encode(A_KEY).tolist() == [0, 0, 0, 1, 0, 0]
    with pytest.raises(InvalidValue, match=words):
        encode(A_KEY | part)


@pytest.mark.parametrize("wrong", [{"pos": np.zeros(2, np.float32)}, None, 3, np.zeros(4), "pos", ()], ids=str)
def test_what_is_no_such_dictionary_is_refused_by_the_part_that_is_missing(wrong):
    with pytest.raises(InvalidValue, match=r"without the part '(key|colour|pos)'"):
        describe(KEYS).encode(wrong)


def test_a_dictionary_that_is_neither_one_observation_nor_a_batch_is_not_predicted_from():
    class Room(gymnasium.Env):
        observation_space, action_space = KEYS, spaces.Discrete(2)

    agent = ebu.EBU(Room(), hidden_sizes=(8,))
    assert agent.predict(A_KEY)[0] in (0, 1)
    assert agent.predict({name: np.asarray(value)[None] for name, value in A_KEY.items()})[0].shape == (1,)
    with pytest.raises(UserError, match=r"an array of float32 \[1, 2\] instead of float32 \[2\], in its part 'pos'"):
        agent.predict({**{name: np.asarray(value)[None] for name, value in A_KEY.items()}, "key": [[0]]})


@pytest.mark.parametrize(
    "space",
    [
        spaces.Sequence(spaces.Discrete(3)),
        spaces.Graph(spaces.Box(0, 1, (2,)), None),
        spaces.Text(5),
        spaces.Dict(a=spaces.Discrete(2), b=spaces.Sequence(spaces.Discrete(2))),
        spaces.Tuple([spaces.Graph(spaces.Discrete(2), None)]),
        gymnasium.Space(),
    ],
    ids=lambda space: type(space).__name__,
)
def test_what_cannot_be_a_vector_is_refused_in_one_line_that_names_it(space):
    with pytest.raises(UserError) as error:
        describe(space)
    message = str(error.value)
    assert "\n" not in message and "wrap the environment" in message and str(space) in message


# ---------------------------------------------------------------------- actions


def test_discrete_actions_are_counted():
    assert count_actions(spaces.Discrete(6)) == 6
    assert count_actions(spaces.Discrete(1)) == 1


def test_continuous_actions_are_refused_in_one_line():
    with pytest.raises(UserError, match="continuous action space") as error:
        count_actions(spaces.Box(-1, 1, (1,)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "space",
    [spaces.MultiDiscrete([2, 2]), spaces.MultiBinary(3), spaces.Tuple([spaces.Discrete(2)]), spaces.Dict()],
    ids=str,
)
def test_other_action_spaces_are_refused_by_name(space):
    with pytest.raises(UserError) as error:
        count_actions(space)
    assert str(space) in str(error.value) and "\n" not in str(error.value)


def test_actions_that_do_not_start_at_zero_are_refused_with_the_way_out():
    with pytest.raises(UserError, match="starts at 1; wrap the environment"):
        count_actions(spaces.Discrete(3, start=1))
