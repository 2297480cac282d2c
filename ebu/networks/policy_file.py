"""A policy in one file: weights as safetensors, everything else as JSON in its header. No pickle."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from ebu.config import Config, flat, from_json
from ebu.config_check import check
from ebu.envs.spaces import ObservationSpec
from ebu.errors import RunFailure, UserError
from ebu.networks.ensemble import Ensemble
from ebu.networks.factories import Factory, admit
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import build_network
from ebu.storage import seal
from ebu.storage.files import MAX_POLICY, Damaged, read_file, write_atomically

MAX_REASON = 300  # characters of an error's text; some libraries add a stack trace
FORMAT = "ebu-policy-1"


@dataclass(frozen=True)
class SavedPolicy:
    config: Config
    observation: ObservationSpec
    actions: int
    stack: int
    tensors: dict[str, Tensor]  # weights by name; of an ensemble, with an axis [K] before each shape

    @property
    def skeleton(self) -> nn.Module:
        return build_network(self.observation, self.actions, self.stack, self.config.network)

    @property
    def learners(self) -> int:
        """Networks of an ensemble, else 1."""
        name, parameter = next(self.skeleton.named_parameters())
        weights = self.tensors.get(name)
        return 1 if weights is None or weights.ndim == parameter.ndim else len(weights)

    def require_all_weights(self) -> None:
        """Checks the number of weights before memory is allocated for the network that the file's settings describe."""
        weights = self.learners * sum(p.numel() for p in self.skeleton.parameters())
        if weights == 0 or weights != sum(t.numel() for t in self.tensors.values()):
            raise ValueError("the weights do not match the network: names or shapes differ")

    def place(self, device: torch.device) -> Ensemble:
        """The network with these weights, or all of an ensemble."""
        network = fastest_ensemble(self.skeleton, self.learners, device)
        network.load_named_tensors(self.tensors)
        return network


def save_policy(path: Path, policy: SavedPolicy) -> None:
    """Atomic: the whole file or the one before, whatever fails. The same policy gives the same bytes."""
    header = {
        "config": flat(policy.config),
        "observation": policy.observation.to_json(),
        "actions": policy.actions,
        "stack": policy.stack,
        seal.KEY: seal.BLANK,
    }
    tensors = {name: view.contiguous().cpu() for name, view in policy.tensors.items()}
    data = save(tensors, metadata={FORMAT: json.dumps(header)})
    try:
        write_atomically(path, seal.sealed(data, _header_end(data)))
    except FileNotFoundError as error:
        raise RunFailure(f"cannot write {path}: there is no folder {path.parent}") from error
    except OSError as error:
        raise RunFailure(f"cannot write {path}: {error.strerror}") from error
    except ValueError as error:  # a name that no file can have
        reason = error if path.name else "it is the name of a folder; add the name of a file"
        raise RunFailure(f"cannot write {str(path)!a}: {reason}") from error


def load_policy(path: Path, trusted: bool = False, network: Factory | None = None) -> SavedPolicy:
    """The policy in a file, or a UserError that says what is wrong with the file.

    A network of the user's own is the one given, or imported by the name in the file if the file is trusted.
    """
    if not os.path.isfile(path):  # accepts names that no file can have
        raise UserError(f"there is no file {path}")
    try:
        data = read_file(path.resolve(), MAX_POLICY)  # the name given may be a link
        if data[8:9] != b"{":  # where the header begins
            raise UserError(f"{path} is not a policy file of ebu")
        texts, tensors = _texts(data), load(data)
        if FORMAT not in texts:
            raise UserError(f"{path} is not a policy saved by ebu")
        header = json.loads(texts[FORMAT])
        if seal.KEY in header and not seal.is_intact(data, _header_end(data)):
            raise UserError(f"{path}: invalid policy file: checksum mismatch")
        if header.keys() - {seal.KEY} != seal.FIELDS:  # for example a damaged name of the checksum; older files have none
            raise ValueError(f"its header has other fields than {', '.join(sorted(seal.FIELDS))}")
        config = from_json(json.dumps(header["config"]))
        check(config)
        admit(config.network.network, trusted, path, network)
        observation = ObservationSpec.from_json(header["observation"])
        policy = SavedPolicy(config, observation, int(header["actions"]), int(header["stack"]), tensors)
        policy.require_all_weights()
        policy.place(torch.device("cpu"))  # refuses weights that do not fit
    except Damaged as error:
        raise UserError(f"{path}: invalid policy file: {error}") from error
    except UserError:
        raise
    except Exception as error:  # of any kind: a hostile file can cause any of them
        reason = " ".join(str(error).split())
        raise UserError(f"{path}: invalid policy file: {reason[:MAX_REASON]}") from error
    return policy


def _texts(data: bytes) -> dict[str, str]:
    """The metadata in the header of a file of tensors."""
    texts = json.loads(data[8 : _header_end(data)]).get("__metadata__", {})
    if not isinstance(texts, dict):
        raise ValueError("its header has values that are not strings")
    return texts


def _header_end(data: bytes) -> int:
    """Where the header ends: its length is in the first eight bytes."""
    end = 8 + int.from_bytes(data[:8], "little")
    if len(data) < 8 or end > len(data):
        raise ValueError("the header is longer than the file")
    return end
