"""The episode memory without any of its cleverness: a list of episodes, and every question answered by looking."""

from __future__ import annotations

import numpy as np


class NaiveMemory:
    def __init__(self, capacity, gamma, stack=1, truncation_is_terminal=False):
        self.capacity, self.gamma, self.stack = capacity, gamma, stack
        self.truncation_is_terminal = truncation_is_terminal
        self.kept = []  # (number, number of its first step, episode), oldest first
        self.added_episodes = self.added_steps = 0

    def add(self, episode):
        while self.kept and self.steps + len(episode) > self.capacity:
            self.kept.pop(0)
        self.kept.append((self.added_episodes, self.added_steps, episode))
        self.added_episodes += 1
        self.added_steps += len(episode)
        return self.added_episodes - 1

    @property
    def steps(self):
        return sum(len(episode) for _, _, episode in self.kept)

    @property
    def numbers(self):
        return [number for number, _, _ in self.kept]

    def find(self, number):
        return next((first, episode) for kept, first, episode in self.kept if kept == number)

    def locate(self, step):
        """(episode, place in it) of a step's number."""
        return next((number, step - first) for number, first, episode in self.kept if first <= step < first + len(episode))

    def state(self, number, t):
        """The state after t steps: the latest frames, oldest first, zeros before the episode's first."""
        _, episode = self.find(number)
        if self.stack == 1:
            return episode.observations[t]
        blank = np.zeros_like(episode.observations[0])
        frames = [episode.observations[i] if i >= 0 else blank for i in range(t - self.stack + 1, t + 1)]
        return np.concatenate(frames)

    def discount(self, number, t):
        _, episode = self.find(number)
        last = t == len(episode) - 1
        ended = last and (episode.terminated or self.truncation_is_terminal)
        return 0.0 if ended else self.gamma

    def observed_return(self, number, t):
        """The discounted return from step t to the episode's end, or None where there is value beyond that end."""
        _, episode = self.find(number)
        if self.discount(number, len(episode) - 1) > 0:
            return None
        return sum(self.gamma**k * float(reward) for k, reward in enumerate(episode.rewards[t:]))

    def read(self, pieces):
        """One dictionary per step of the pieces (episode, first place, count), in order."""
        rows = []
        for number, start, count in pieces:
            first, episode = self.find(number)
            for t in range(start, start + count):
                rows.append(
                    {
                        "state": self.state(number, t),
                        "next_state": self.state(number, t + 1),
                        "action": episode.actions[t],
                        "reward": episode.rewards[t],
                        "behaviour": episode.behaviour[t],
                        "discount": np.float32(self.discount(number, t)),
                        "return": self.observed_return(number, t),
                        "continues": t + 1 < start + count,
                        "step": first + t,
                    }
                )
        return rows
