"""The episode memory: whole episodes, each observation once, the oldest episode forgotten first.

Three growing numbers address everything, so that nothing is ever searched for or moved:
episodes are numbered 0, 1, 2, …; steps are numbered across episodes; and as an episode has one observation more than it
has steps, the observation before step g of episode e is row g + e.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebu.memory.frames import CompressedFrames, Compression, FrameStore, PlainFrames, is_compressed, ranges
from ebu.memory.ring import Ring
from ebu.types import Array, Episode, Span

ONGOING, TERMINATED, TRUNCATED = 0, 1, 2  # what came after a step; kept apart, as only termination ends the value

UNKNOWN_RETURN = -1e30

STEP = np.dtype(
    [
        ("action", np.int32),
        ("reward", np.float32),
        ("behaviour", np.float32),
        ("return", np.float32),
        ("outcome", np.uint8),
        ("episode", np.int64),
    ],
    align=True,
)


class EpisodeMemory:
    """Finished episodes within ``capacity`` steps in total; the newest episode is always kept, whatever its length."""

    def __init__(
        self,
        capacity: int,
        frame_shape: tuple[int, ...],
        frame_dtype: Any,
        *,
        gamma: float,
        stack: int = 1,
        truncation_is_terminal: bool = False,
        compress: Compression = "auto",
    ) -> None:
        self.capacity = capacity
        self.stack = stack
        self.frame_shape = frame_shape
        self.frame_dtype = np.dtype(frame_dtype)
        self._discount_after = np.array([gamma, 0.0, 0.0 if truncation_is_terminal else gamma], np.float32)
        self._steps = Ring((), STEP)
        self._starts = Ring((), np.int64)  # number of each episode's first step
        kind = CompressedFrames if is_compressed(frame_shape, frame_dtype, compress) else PlainFrames
        self._frames: FrameStore = kind(frame_shape, frame_dtype)

    # ------------------------------------------------------------------ what is there

    @property
    def steps(self) -> int:
        """Steps stored."""
        return len(self._steps)

    @property
    def episodes(self) -> int:
        """Episodes stored."""
        return len(self._starts)

    @property
    def first_step(self) -> int:
        return self._steps.first

    @property
    def end_step(self) -> int:
        return self._steps.end

    @property
    def first_episode(self) -> int:
        return self._starts.first

    @property
    def end_episode(self) -> int:
        return self._starts.end

    @property
    def nbytes(self) -> int:
        return self._steps.nbytes + self._starts.nbytes + self._frames.nbytes

    def lengths(self, episodes: Array) -> Array:
        """Steps of each of these episodes."""
        following = episodes + 1
        ends = self._starts.take(following)
        ends[following == self._starts.end] = self._steps.end  # no episode follows the newest: its row was any
        return ends - self._starts.take(episodes)

    def locate(self, steps: Array) -> tuple[Array, Array]:
        """The episode of each step number, and the step's place in it."""
        episodes = self._steps.take(steps)["episode"]
        return episodes, steps - self._starts.take(episodes)

    # ------------------------------------------------------------------ writing

    def add(self, episode: Episode) -> int:
        """Store an episode; returns its number. Oldest episodes leave while there are more steps than the capacity."""
        length = len(episode)
        if length == 0:
            raise ValueError("an episode has at least one step")
        if len(episode.observations) != length + 1:
            raise ValueError(f"{length} steps need {length + 1} observations, got {len(episode.observations)}")
        number = self._starts.end
        rows = np.zeros(length, STEP)
        rows["action"] = episode.actions
        rows["reward"] = episode.rewards
        rows["behaviour"] = episode.behaviour
        rows["episode"] = number
        rows["outcome"][-1] = TERMINATED if episode.terminated else TRUNCATED
        rows["return"] = self._returns(episode.rewards, rows["outcome"][-1])
        while self.episodes and self.steps + length > self.capacity:
            self._drop_oldest()
        self._starts.append(np.array([self._steps.end]))
        self._steps.append(rows)
        self._frames.append(episode.observations)
        return number

    def _returns(self, rewards: Array, outcome: int) -> Array:
        """Discounted returns to the episode's end, or UNKNOWN_RETURN where there is value beyond the end."""
        gamma = self._discount_after[ONGOING]
        if self._discount_after[outcome] > 0 or gamma == 0:
            return np.full(len(rewards), UNKNOWN_RETURN, np.float32)
        # y_t − γ y_{t+1} = r_t, from the end: a first-order recursive filter.
        from scipy.signal import lfilter  # takes a second to import, and only training needs it

        return lfilter([1.0], [1.0, -float(gamma)], rewards[::-1].astype(np.float64))[::-1]

    def _drop_oldest(self) -> None:
        length = int(self.lengths(np.array([self.first_episode]))[0])
        self._frames.drop_oldest(length + 1)
        self._starts.drop_before(self._starts.first + 1)
        self._steps.drop_before(self._steps.first + length)

    # ------------------------------------------------------------------ reading

    def read(self, episodes: Array, offsets: Array, counts: Array, trained: Array | None = None) -> Span:
        """A span of one piece per row: ``counts`` steps of an episode from its step number ``offsets`` on.

        ``trained`` are the positions that are learned from, in their order; without it, all from the first to the last.
        """
        starts = self._starts.take(episodes)
        steps = ranges(starts + offsets, counts)
        table = self._steps.take(steps)
        last = counts.cumsum() - 1
        continues = np.ones(len(steps), bool)
        continues[last] = False

        lead = np.minimum(offsets, self.stack - 1)  # earlier frames needed by the first state's stack
        frame_counts = lead + counts + 1
        frames = self._frames.read(episodes, starts + episodes, offsets - lead, frame_counts)
        first_rows = frame_counts.cumsum() - frame_counts
        return Span(
            frames=frames,
            stack_index=self._stack_index(first_rows, frame_counts) if self.stack > 1 else None,
            rows=ranges(first_rows + lead, counts),
            actions=table["action"].astype(np.int64),
            rewards=np.ascontiguousarray(table["reward"]),
            discounts=self._discount_after[table["outcome"]],
            behaviour=np.ascontiguousarray(table["behaviour"]),
            continues=continues,
            returns=np.ascontiguousarray(table["return"]),
            steps=steps,
            trained=np.arange(len(steps)) if trained is None else trained,
        )

    def read_single(self, steps: Array) -> Span:
        """A span of single steps by their numbers: what ``read`` gives for pieces of one step, in a third of the time."""
        table = self._steps.take(steps)
        episodes = table["episode"]
        starts = self._starts.take(episodes)
        if self.stack > 1:
            return self.read(episodes, steps - starts, np.ones_like(steps))
        count = len(steps)
        return Span(
            frames=self._frames.read_pairs(episodes, starts + episodes, steps - starts),
            stack_index=None,
            rows=np.arange(0, 2 * count, 2),
            actions=table["action"].astype(np.int64),
            rewards=np.ascontiguousarray(table["reward"]),
            discounts=self._discount_after[table["outcome"]],
            behaviour=np.ascontiguousarray(table["behaviour"]),
            continues=np.zeros(count, bool),
            returns=np.ascontiguousarray(table["return"]),
            steps=steps,
            trained=np.arange(count),
        )

    def _stack_index(self, first_rows: Array, frame_counts: Array) -> Array:
        """Rows of the ``stack`` frames that end at each row, oldest first; −1 before a piece's first frame.

        A piece starts either at its episode's first frame, where padding is right, or early enough for its states.
        """
        total = int(frame_counts.sum())
        index = np.arange(total)[:, None] + np.arange(1 - self.stack, 1)
        index[index < np.repeat(first_rows, frame_counts)[:, None]] = -1
        return index

    # ------------------------------------------------------------------ saving

    @property
    def first(self) -> int:
        """Number of the oldest episode, as a checkpoint asks."""
        return self.first_episode

    @property
    def end(self) -> int:
        return self.end_episode

    def pack(self, number: int) -> bytes:
        """One episode as bytes that never change: its steps' table, then its observations as they are stored."""
        start = int(self._starts.take(np.array([number]))[0])
        length = int(self.lengths(np.array([number]))[0])
        table = self._steps.take(np.arange(start, start + length)).tobytes()
        return length.to_bytes(8, "little") + table + self._frames.pack(number, start + number, length + 1)

    def unpack(self, number: int, packed: bytes) -> None:
        """Add the next episode from what ``pack`` gave; ValueError where it cannot be one."""
        length = self.steps_of(packed)
        table_end = 8 + length * STEP.itemsize
        if not length >= 1 or table_end > len(packed):
            raise ValueError("an episode's packed steps are incomplete")
        rows = np.frombuffer(packed[8:table_end], STEP)
        if number != self._starts.end or (rows["episode"] != number).any():
            raise ValueError(f"episode {number} is out of order")
        self._frames.unpack(packed[table_end:], length + 1)
        self._starts.append(np.array([self._steps.end]))
        self._steps.append(rows)

    @staticmethod
    def steps_of(packed: bytes) -> int:
        """How many steps a packed episode says it has."""
        return int.from_bytes(packed[:8], "little")

    @classmethod
    def renumbered(cls, number: int, packed: bytes) -> bytes:
        """What ``pack`` would have given for this episode under another number."""
        table_end = 8 + cls.steps_of(packed) * STEP.itemsize
        rows = np.frombuffer(packed[8:table_end], STEP).copy()
        rows["episode"] = number
        return packed[:8] + rows.tobytes() + packed[table_end:]

    def restart(self, episode: int, step: int) -> None:
        """Forget everything; the next episode and the next step have these numbers."""
        self._starts.restart(episode)
        self._steps.restart(step)
        self._frames.restart(episode, step + episode)

    def starts(self) -> Array:
        """Number of the first step of each episode."""
        return self._starts.take(np.arange(self.first_episode, self.end_episode))

    def state_dict(self) -> dict[str, Any]:
        """The numbers of the first episode and step; the episodes themselves are packed one by one."""
        return {"first_episode": self.first_episode, "first_step": self.first_step, "episodes": self.episodes}
