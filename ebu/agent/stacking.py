"""K networks in the form that is fastest for them."""

from __future__ import annotations

import torch
from torch import nn

from ebu.agent.stacked import StackedNetwork
from ebu.agent.stacked_convolution import StackedConvolution
from ebu.agent.stacked_images import StackedImages
from ebu.agent.stacked_mlp import StackedMLP


def stacked(skeleton: nn.Module, learners: int, device: torch.device) -> StackedNetwork:
    if StackedMLP.fits(skeleton):
        return StackedMLP(skeleton, learners, device)
    if StackedConvolution.fits(skeleton):
        return StackedConvolution(skeleton, learners, device)
    if StackedImages.fits(skeleton):
        return StackedImages(skeleton, learners, device)
    return StackedNetwork(skeleton, learners, device)
