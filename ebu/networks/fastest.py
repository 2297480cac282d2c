"""K networks in the form that is fastest for them."""

from __future__ import annotations

import torch
from torch import nn

from ebu.networks.ensemble import Ensemble
from ebu.networks.ensemble_convolution import EnsembleConvolution
from ebu.networks.ensemble_histogram import EnsembleHistogram
from ebu.networks.ensemble_images import EnsembleImages
from ebu.networks.ensemble_mlp import EnsembleMLP
from ebu.networks.ensemble_norm import EnsembleNormConvolution, EnsembleNormMLP
from ebu.networks.ensemble_own import EnsembleOwn
from ebu.networks.ensemble_prior import EnsemblePrior
from ebu.networks.histogram import Histogram
from ebu.networks.modules import WithPrior

FORMS: list[type[EnsembleMLP] | type[EnsembleImages] | type[EnsembleOwn]] = [
    EnsembleMLP,
    EnsembleConvolution,
    EnsembleImages,
    EnsembleNormMLP,
    EnsembleNormConvolution,
    EnsembleOwn,
]


def fastest_ensemble(skeleton: nn.Module, learners: int, device: torch.device) -> Ensemble:
    if isinstance(skeleton, WithPrior):
        return EnsemblePrior(skeleton, learners, device, fastest_ensemble)
    if isinstance(skeleton, Histogram):
        return EnsembleHistogram(skeleton, learners, device, fastest_ensemble)
    form = next((form for form in FORMS if form.fits(skeleton)), Ensemble)
    return form(skeleton, learners, device)
