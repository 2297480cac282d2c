"""K networks in the form that is fastest for them."""

from __future__ import annotations

import torch
from torch import nn

from ebu.networks.ensemble import Ensemble
from ebu.networks.ensemble_convolution import EnsembleConvolution
from ebu.networks.ensemble_images import EnsembleImages
from ebu.networks.ensemble_mlp import EnsembleMLP


def fastest_ensemble(skeleton: nn.Module, learners: int, device: torch.device) -> Ensemble:
    if EnsembleMLP.fits(skeleton):
        return EnsembleMLP(skeleton, learners, device)
    if EnsembleConvolution.fits(skeleton):
        return EnsembleConvolution(skeleton, learners, device)
    if EnsembleImages.fits(skeleton):
        return EnsembleImages(skeleton, learners, device)
    return Ensemble(skeleton, learners, device)
