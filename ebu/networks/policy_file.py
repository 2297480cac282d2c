"""A policy in one file: weights as safetensors, everything else as JSON in its header. No pickle."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ebu.config import Config, check, flat, from_json
from ebu.envs.spaces import ObservationSpec
from ebu.errors import RunFailure, UserError
from ebu.networks.ensemble import Ensemble
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import build_network

FORMAT = "ebu-policy-1"


@dataclass(frozen=True)
class SavedPolicy:
    config: Config
    observation: ObservationSpec
    actions: int
    stack: int
    tensors: dict[str, Tensor]  # weights by name

    @property
    def skeleton(self) -> nn.Module:
        return build_network(self.observation, self.actions, self.stack, self.config.network)

    def require_all_weights(self) -> None:
        """Before memory is taken for a network that a stranger's settings describe: the file holds as many weights."""
        if sum(p.numel() for p in self.skeleton.parameters()) != sum(t.numel() for t in self.tensors.values()):
            raise ValueError("the weights are those of another network")

    def place(self, device: torch.device) -> Ensemble:
        """The network with these weights."""
        network = fastest_ensemble(self.skeleton, 1, device)
        network.load_named_tensors(self.tensors)
        return network


def save_policy(path: Path, policy: SavedPolicy) -> None:
    """Written aside and renamed, so that a crash leaves the old file or the new one. The same policy is the same bytes."""
    header = {
        "config": flat(policy.config),
        "observation": asdict(policy.observation),
        "actions": policy.actions,
        "stack": policy.stack,
    }
    tensors = {name: view.contiguous().cpu() for name, view in policy.tensors.items()}
    aside = path.with_name(path.name + ".part")
    try:
        aside.write_bytes(save(tensors, metadata={FORMAT: json.dumps(header)}))
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise RunFailure(f"cannot write {path}: {error.strerror}") from error


def load_policy(path: Path) -> SavedPolicy:
    """The policy in a file, or a UserError that says what is wrong with the file."""
    if not os.path.isfile(path):  # which takes names that no file can have, too
        raise UserError(f"there is no file {path}")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            texts = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        if FORMAT not in texts:
            raise UserError(f"{path} is not a policy saved by ebu")
        header = json.loads(texts[FORMAT])
        config = from_json(json.dumps(header["config"]))
        check(config)
        fields: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in header["observation"].items()}
        policy = SavedPolicy(config, ObservationSpec(**fields), int(header["actions"]), int(header["stack"]), tensors)
        policy.require_all_weights()
        policy.place(torch.device("cpu"))  # refuses weights that do not fit
    except (SafetensorError, AttributeError, KeyError, TypeError, ValueError, RuntimeError, OSError) as error:
        raise UserError(f"{path} is damaged or was not saved by ebu: {' '.join(str(error).split())}") from error
    return policy
