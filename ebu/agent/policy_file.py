"""A policy in one file: weights as safetensors, everything else as JSON in its header. No pickle."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ebu.agent.networks import build_network
from ebu.agent.stacked import StackedNetwork
from ebu.agent.stacked_mlp import stacked
from ebu.config import Config, from_json, to_json
from ebu.envs.spaces import ObservationSpec
from ebu.errors import UserError

FORMAT = "ebu-policy-1"


@dataclass(frozen=True)
class SavedPolicy:
    config: Config
    observation: ObservationSpec
    actions: int
    stack: int
    tensors: dict[str, Tensor]  # weights by name

    def place(self, device: torch.device) -> StackedNetwork:
        """The network with these weights."""
        skeleton = build_network(self.observation, self.actions, self.stack, self.config.network)
        network = stacked(skeleton, 1, device)
        network.load_named_tensors(self.tensors)
        return network


def save_policy(path: Path, policy: SavedPolicy) -> None:
    """Written aside and renamed, so that a crash leaves the old file or the new one."""
    header = {
        "format": FORMAT,
        "config": to_json(policy.config),
        "observation": json.dumps(asdict(policy.observation)),
        "actions": str(policy.actions),
        "stack": str(policy.stack),
    }
    tensors = {name: view.contiguous().cpu() for name, view in policy.tensors.items()}
    aside = path.with_name(path.name + ".part")
    save_file(tensors, aside, metadata=header)
    aside.replace(path)


def load_policy(path: Path) -> SavedPolicy:
    """The policy in a file, or a UserError that says what is wrong with the file."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        if header.get("format") != FORMAT:
            raise UserError(f"{path} is not a policy saved by ebu")
        config = from_json(header["config"])
        fields: dict[str, Any] = json.loads(header["observation"])
        tuples: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
        spec = ObservationSpec(**tuples)
        actions, stack = int(header["actions"]), int(header["stack"])
        policy = SavedPolicy(config, spec, actions, stack, tensors)
        policy.place(torch.device("cpu"))  # refuses weights that do not fit
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise UserError(f"{path} is damaged or was not saved by ebu: {' '.join(str(error).split())}") from error
    return policy
