"""One function for many items on a Ray cluster; answers come in the order of the items.

An item whose worker or machine is lost is worked on again, on what is left of the cluster. An item
is worked on from its beginning and answers come in order, so the result is the same whatever was
lost, and however many workers there are.
"""

from __future__ import annotations

import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeVar, get_args

from equipoise.errors import InputError, check_choice, check_whole, needs, refuse_unread

Engine = Literal["local", "ray"]
Item = TypeVar("Item")
Found = TypeVar("Found")

#: How often an item is worked on again after its worker was lost. A machine that goes takes the
#: answers that wait on it along, so one item may be lost several times.
RETRIES = 5
#: Answers that wait for an earlier one, for each item that is worked on.
_AHEAD = 2
#: Bytes for answers on their way, where equipoise starts Ray itself. Ray would take 30 % of memory.
_STORE = 256 * 2**20


def uses_cluster(engine: str, workers: int | None) -> bool:
    """Whether a command runs on a cluster; refuse an unknown engine."""
    check_choice("engine", engine, get_args(Engine))
    if engine == "local" and workers is not None:
        refuse_unread("workers (--workers)", workers, "engine='local'", "give --engine ray")
    return engine == "ray"


@dataclass(frozen=True)
class Cluster:
    """Ray, connected, and how many items it works on at a time."""

    ray: Any
    workers: int | None

    @property
    def cores(self) -> int:
        """Items that the cluster can work on at a time."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def in_order(self, function: Callable[[Item], Found], items: Sequence[Item]) -> Iterator[Found]:
        """Yield ``function(item)`` of each item, in order.

        The function is picklable; its module must be installed on every machine of the cluster.
        """
        task = self.ray.remote(num_cpus=1, max_retries=RETRIES)(_call)
        shared = self.ray.put(function)
        # With a limit on workers, no further item may begin before an answer was taken.
        window = self.workers or _AHEAD * self.cores
        waiting = iter(items)
        begun = deque((item, task.remote(shared, item)) for item in islice(waiting, window))
        while begun:
            item, answer = begun.popleft()
            found = self._taken(item, answer)
            begun.extend((each, task.remote(shared, each)) for each in islice(waiting, 1))
            yield found

    def _taken(self, item: Any, answer: Any) -> Any:
        """The answer of an item, or the error that its function raised."""
        errors = self.ray.exceptions
        try:
            return self.ray.get(answer)
        except errors.RayTaskError as failed:
            # The error itself, not Ray's report of where in the cluster it was raised.
            raise (failed.cause or failed) from None
        except errors.RayError as lost:
            why = next(iter(str(lost).strip().splitlines()), "no reason given")
            raise InputError(
                f"the cluster must have a worker that lives until {item} is done, got "
                f"{type(lost).__name__} {1 + RETRIES} times ({why}); "
                "give workers more memory, or write smaller files"
            ) from None


@contextmanager
def connected(workers: int | None = None) -> Iterator[Cluster]:
    """Connect to the cluster in use, to that of RAY_ADDRESS, or else use this machine alone.

    workers : items worked on at a time; by default one for each core of the cluster.
    """
    if workers is not None:
        check_whole("workers", workers)
    with needs("ray", user='engine="ray" (--engine ray)', extra="ray"):
        import ray
    # Ray tells of lost machines on standard output, which belongs to the answer.
    with redirect_stdout(sys.stderr), _cluster_in_use(ray):
        yield Cluster(ray, workers)


@contextmanager
def _cluster_in_use(ray: Any) -> Iterator[None]:
    """Connect, unless somebody has; disconnect in the end if it was done here."""
    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS", "")
    _check_answers(address)
    # Ray reports usage to its makers unless told not to.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not address:
        # Ray gives way to all other programs unless told not to. Beside a busy one its workers
        # would get a thirtieth of a core, which is too little even to start in time.
        os.environ.setdefault("RAY_worker_niceness", "0")
    alone: dict[str, Any] = {"include_dashboard": False, "object_store_memory": _STORE}
    ray.init(
        address=address or "local",
        logging_level="ERROR",
        log_to_driver=False,
        **({} if address else alone),
    )
    try:
        yield
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Refuse an address where nothing listens: Ray would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise InputError(
            f"RAY_ADDRESS must be the address of a cluster that runs, got {address!r}, which does "
            f"not answer ({error}); begin one with ray start --head, or unset RAY_ADDRESS to use "
            "this machine alone"
        ) from None


def _call(function: Callable[[Item], Found], item: Item) -> Found:
    return function(item)
