"""Environments: the paper's maze, families of others by name, and wrappers around any of them."""

from ebu.envs.delay import DelayedReward

__all__ = ["DelayedReward"]
