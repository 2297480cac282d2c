"""How an agent's network is handed to other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ebu.agent.base import BaseAgent
from ebu.errors import RunFailure, UserError

if TYPE_CHECKING:
    from ebu.networks.plain import PlainNetwork


class Exporting(BaseAgent):
    """The part of an agent that exports its network."""

    def module(self) -> PlainNetwork:
        """The current network as an ``nn.Module`` of its own: raw observations in, Q(s, ·) out.

        With K learners it is the leader's network; for an ensemble, the mean of all.

        Its inputs are tensors [B, *shape] as the environment returns observations, [B, stack, *shape] where states are
        stacks of frames (oldest first), and one for each part of a dictionary or tuple, in the order of ``module.names``.
        """
        from ebu.networks.modules import build_network
        from ebu.networks.plain import plain_network
        from ebu.training.best import policy_tensors

        interface = self.interface
        if self._loop is None and self._restored is not None:
            tensors = self._restored.tensors
        else:
            tensors = policy_tensors(self.loop)
        network = build_network(interface.spec, interface.actions, interface.stack, self.config.network)
        return plain_network(network, tensors, self._environment.env.observation_space, interface.spec, interface.stack)

    def export(self, path: str | Path) -> None:
        """Write ``module()`` as an ONNX file (extra ``onnx``) and compare what ONNX Runtime computes from it with the agent.

        Inputs are named as in the module, ``observation`` if there is only one, with a dynamic batch size; the output is
        ``values``.
        """
        from ebu.networks.plain import export_onnx

        path = Path(path)
        if path.suffix.lower() != ".onnx":
            raise UserError(
                f"export writes ONNX: name the file *.onnx, not {path.name!r}; weights and settings are saved by agent.save"
            )
        if not path.parent.is_dir() or path.is_dir():
            what = f"there is no folder {path.parent}" if not path.parent.is_dir() else "it is a folder"
            raise RunFailure(f"cannot write {path}: {what}")
        export_onnx(self.module(), str(path))
