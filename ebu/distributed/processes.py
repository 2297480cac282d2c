"""The ranks that ``torchrun`` started, and how they talk: rank 0 announces calls, and all exchange tensors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.graph import increment_version

from ebu.errors import RunFailure, UserError

ANNOUNCEMENT_BYTES = 512  # a call's name, its numbers, and the shapes of its tensors
ANSWER_TIME = timedelta(minutes=10)  # rank 0 waits no longer for another rank
IDLE_TIME = timedelta(days=7)  # the others have nothing to do while rank 0 plays or evaluates


class LostRank(RunFailure):
    """Another rank of the run died, or does not answer."""


def is_launched() -> bool:
    """Whether this process was started by torchrun, alone or as one of several."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def join() -> ProcessGroup | None:
    """The group of the processes torchrun started; None for a process on its own."""
    if not is_launched() or os.environ["WORLD_SIZE"] == "1":
        return None
    return ProcessGroup(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")))


class ProcessGroup:
    """All ranks of a run. Every rank makes the same calls in the same order; rank 0 says which.

    Tensors on the CPU travel by gloo, tensors on a GPU by NCCL. Announcements stay on the CPU, where reading one waits for
    no GPU. They are lines of JSON: nothing that arrives is executed.
    """

    def __init__(self, rank: int, size: int, local_rank: int, local_size: int) -> None:
        self.rank, self.size = rank, size
        self._local_rank, self._local_size = local_rank, local_size
        self._is_listened_to = True  # the other ranks wait for an announcement, and for nothing else
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
            rank=rank,
            world_size=size,
            timeout=IDLE_TIME if rank else ANSWER_TIME,
        )

    def __enter__(self) -> ProcessGroup:
        return self

    def __exit__(self, *_: object) -> None:
        """Rank 0 stops the others. Those that wait for something else notice the end of the connection."""
        if self.rank == 0 and self._is_listened_to:
            with suppress(LostRank):
                self.tell(["stop"])
        # Before PyTorch 2.8, a group that is destroyed holds the interpreter's lock while it waits for its threads, and these
        # may need it to let go of a tensor. A backend releases the lock first: kept until the group is gone, it is what waits.
        backend = _backend()
        dist.destroy_process_group()
        del backend

    def own_device(self, wanted: torch.device) -> torch.device:
        """This rank's device of the wanted kind."""
        if wanted.type != "cuda":
            return wanted
        device = gpu_of_rank(wanted, self._local_rank, self._local_size, torch.cuda.device_count())
        torch.cuda.set_device(device)
        return device

    # ------------------------------------------------------------------ calls

    @contextmanager
    def together(self, name: str, *arguments: Any) -> Iterator[None]:
        """Rank 0 announces a call, which the other ranks make while it makes the same one inside this context."""
        self._is_listened_to = False
        self.tell([name, *(_description(a) if isinstance(a, Tensor) else a for a in arguments)])
        for argument in arguments:
            if isinstance(argument, Tensor):
                self.broadcast(argument.contiguous())
        yield
        self._is_listened_to = True  # not after an exception: a rank may still wait for a tensor

    def listen(self) -> tuple[str, list[Any]]:
        """The call that rank 0 announces next."""
        name, *described = self.tell(None)
        return name, [self.broadcast(_blank(**a)) if isinstance(a, dict) else a for a in described]

    def tell(self, value: Any) -> Any:
        """A plain value of rank 0, returned on all ranks."""
        block = torch.zeros(ANNOUNCEMENT_BYTES, dtype=torch.uint8)
        if self.rank == 0:
            line = json.dumps(value).encode()
            block[: len(line)] = torch.frombuffer(bytearray(line), dtype=torch.uint8)
        return json.loads(self.broadcast(block).numpy().tobytes().rstrip(b"\0"))

    # ------------------------------------------------------------------ tensors

    def broadcast(self, tensor: Tensor, source: int = 0) -> Tensor:
        """One rank's tensor, copied to every rank."""
        with _connection():
            dist.broadcast(tensor, source)
        increment_version(tensor)
        return tensor

    def send(self, tensor: Tensor, to: int) -> None:
        with _connection():
            dist.send(tensor.contiguous(), to)

    def receive(self, tensor: Tensor, source: int) -> Tensor:
        """Written into this tensor, which has to be contiguous."""
        with _connection():
            dist.recv(tensor, source)
        increment_version(tensor)  # caches made from it see that it has changed
        return tensor

    def gather(self, part: Tensor, shares: Sequence[range]) -> Tensor | None:
        """Every rank's part [k, …] as one tensor [K, …] at rank 0."""
        if self.rank:
            self.send(part, 0)
            return None
        whole = part.new_empty(shares[-1].stop, *part.shape[1:])
        whole[: len(part)] = part
        for rank, share in enumerate(shares[1:], 1):
            self.receive(whole[share.start : share.stop], rank)
        return whole

    def scatter(self, whole: Tensor | None, part: Tensor, shares: Sequence[range]) -> Tensor:
        """The reverse: rank 0 has [K, …], every rank gets its own like ``part``."""
        if whole is None:
            return self.receive(torch.empty_like(part), 0)
        for rank, share in enumerate(shares[1:], 1):
            self.send(whole[share.start : share.stop].to(part.device), rank)
        return whole[: len(part)]


def shares_of(learners: int, ranks: int) -> list[range]:
    """Contiguous and as even as possible; rank 0, which also plays, has no more than any other."""
    bounds = [learners * rank // ranks for rank in range(ranks + 1)]
    return [range(start, stop) for start, stop in pairwise(bounds)]


def gpu_of_rank(wanted: torch.device, local_rank: int, local_size: int, gpus: int) -> torch.device:
    """Each rank of a machine takes the GPU of its number."""
    if wanted.index is not None:
        raise UserError(f"--device {wanted} puts all ranks on one GPU; use --device cuda, with which each rank takes its own")
    if local_size > gpus:
        raise UserError(f"{local_size} ranks on a machine with {gpus} GPU(s); use --nproc-per-node {gpus}, or --device cpu")
    return torch.device("cuda", local_rank)


def _backend() -> object:
    """What the group calls for tensors on the CPU. A function of its own: the caller keeps no reference to the group."""
    world = dist.group.WORLD
    return None if world is None else world._get_backend(torch.device("cpu"))


def _description(tensor: Tensor) -> dict[str, Any]:
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch."), "device": tensor.device.type}


def _blank(shape: list[int], dtype: str, device: str) -> Tensor:
    return torch.empty(shape, dtype=getattr(torch, dtype), device=device)  # "cuda" is the rank's current one


@contextmanager
def _connection() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # gloo and NCCL raise nothing more precise
        words = "another rank of this run exited or timed out; continue from the last checkpoint with `ebu resume`"
        raise LostRank(words) from error
