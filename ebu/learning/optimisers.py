"""Optimisers as element-wise rules on one block of parameters, so that K learners are one step and none sees another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from ebu.config import LearnerConfig

# A block that fits the second-level cache is read from memory once for all operations of a rule, not once for each.
CACHE_BLOCK_ELEMENTS = 32_768

# From this many weights of a learner on PyTorch's fused Adam is several times as fast as the rule: it reads everything once.
# It takes the learners one by one, so that, as with the rule, each gets the same bits however many there are.
FUSED_FROM_ELEMENTS = 100_000

# The averages of a weight that gets no gradient any more shrink to denormal numbers, with which processors compute ten to
# fifty times slower, and stay there. What is smaller than TINY, far below every ε, becomes 0 before it gets that far.
TINY = 1e-30
STEPS_BETWEEN_SWEEPS = 100


Parts = list[Tensor]


class ElementwiseOptimiser:
    """Updates ``parameters`` in place from ``gradient``; subclasses give the rule for one block and its accumulators."""

    accumulators: tuple[tuple[str, float], ...] = ()  # name and starting value

    def __init__(self, parameters: Tensor, gradient: Tensor, config: LearnerConfig) -> None:
        self.learning_rate = config.learning_rate
        self.decay = config.optimizer_decay
        self.eps = config.optimizer_eps
        self.steps = 0
        self._state = {name: torch.full_like(parameters, start) for name, start in self.accumulators}
        tensors = (parameters, gradient, *self._state.values())
        self._blocks = list(_blocks(tensors))

    def step(self) -> None:
        self.steps += 1
        self._apply()
        if self.steps % STEPS_BETWEEN_SWEEPS == 0:
            for average in self._state.values():
                torch.hardshrink(average, TINY, out=average)

    def _apply(self) -> None:
        for block in self._blocks:
            self.rule(*block)

    def rule(self, *block: Tensor) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, **self._state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = int(state["steps"])
        if self.steps < 0:
            raise ValueError(f"optimiser steps < 0: {self.steps}")
        for name, tensor in self._state.items():
            tensor.copy_(state[name])


class DeepMindRMSProp(ElementwiseOptimiser):
    """g ← ρ g + (1−ρ) d,  n ← ρ n + (1−ρ) d²,  θ ← θ − η d / √(n − g² + ε): the Nature DQN code's centred RMSProp."""

    accumulators = (("mean", 0.0), ("square", 0.0))

    def rule(self, p: Tensor, d: Tensor, mean: Tensor, square: Tensor) -> None:  # type: ignore[override]
        mean.lerp_(d, 1 - self.decay)
        square.mul_(self.decay).addcmul_(d, d, value=1 - self.decay)
        # n − g² is a variance; rounding may take it below 0 where the gradient hardly changes.
        root = torch.addcmul(square, mean, mean, value=-1).clamp_min_(0.0).add_(self.eps).sqrt_()
        p.addcdiv_(d, root, value=-self.learning_rate)


class RMSProp(ElementwiseOptimiser):
    """n ← ρ n + (1−ρ) d²,  θ ← θ − η d / √(n + ε), n from 1: TensorFlow's, which the authors' first code used."""

    accumulators = (("square", 1.0),)

    def rule(self, p: Tensor, d: Tensor, square: Tensor) -> None:  # type: ignore[override]
        square.mul_(self.decay).addcmul_(d, d, value=1 - self.decay)
        p.addcdiv_(d, square.add(self.eps).sqrt_(), value=-self.learning_rate)


class Adam(ElementwiseOptimiser):
    """Kingma and Ba (2015), with their constants 0.9 and 0.999."""

    accumulators = (("mean", 0.0), ("square", 0.0))

    def __init__(self, parameters: Tensor, gradient: Tensor, config: LearnerConfig) -> None:
        super().__init__(parameters, gradient, config)
        self._parameters = parameters
        self._learners = [list(t.flatten(1)) for t in (parameters, gradient, self._state["mean"], self._state["square"])]
        self._step = torch.zeros((), device=parameters.device)  # the number of this step, where the fused form reads it

    def _apply(self) -> None:
        if self._learners[0][0].numel() >= FUSED_FROM_ELEMENTS:
            self._apply_fused(*self._learners)
        else:
            super()._apply()

    def rule(self, p: Tensor, d: Tensor, mean: Tensor, square: Tensor) -> None:  # type: ignore[override]
        mean.lerp_(d, 0.1)
        square.mul_(0.999).addcmul_(d, d, value=0.001)
        root = square.sqrt().div_(math.sqrt(1 - 0.999**self.steps)).add_(self.eps)
        p.addcdiv_(mean, root, value=-self.learning_rate / (1 - 0.9**self.steps))

    def _apply_fused(self, parameters: Parts, gradients: Parts, means: Parts, squares: Parts) -> None:
        torch._fused_adam_(  # what torch.optim.Adam(fused=True) calls, after a third of its time
            *(parameters, gradients, means, squares, [], [self._step.fill_(self.steps)] * len(parameters)),
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.learning_rate,
            weight_decay=0.0,
            eps=self.eps,
            maximize=False,
        )
        increment_version(self._parameters)  # which the fused form omits, and by which caches see that weights have changed


class FusedAdam(Adam):
    """In the fused form however few weights there are, of one learner whose gradient comes in parts."""

    def __init__(
        self, parameters: Tensor, gradient: Tensor, config: LearnerConfig, gradient_parts: Callable[[], Parts]
    ) -> None:
        super().__init__(parameters, gradient, config)
        self._gradient_parts = gradient_parts
        sizes = [len(part) for part in gradient_parts()]
        whole = (parameters, self._state["mean"], self._state["square"])
        self._parameter_parts, self._means, self._squares = (list(block[0].split(sizes)) for block in whole)

    def _apply(self) -> None:
        self._apply_fused(self._parameter_parts, self._gradient_parts(), self._means, self._squares)


OPTIMISERS: dict[str, type[ElementwiseOptimiser]] = {
    "adam": Adam,
    "rmsprop": RMSProp,
    "deepmind-rmsprop": DeepMindRMSProp,
}


def _blocks(tensors: tuple[Tensor, ...]) -> Iterator[tuple[Tensor, ...]]:
    together = tensors[0].is_contiguous()  # else the parameters are a part of something, learner by learner
    for flat in [[t.view(-1) for t in tensors]] if together else zip(*tensors):
        size = len(flat[0]) if flat[0].device.type != "cpu" else CACHE_BLOCK_ELEMENTS * torch.get_num_threads()
        for start in range(0, len(flat[0]), size):
            yield tuple(t[start : start + size] for t in flat)
