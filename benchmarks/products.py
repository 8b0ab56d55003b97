"""How much faster than a plain loop 25 members could be if matrix products were their only cost.

An iteration of the plain loop, one of 25 members as in ``training``, and the matrix products of the
latter alone, in turns. Seconds are those of the processor in one thread, which depend less on other
programs than those of the clock.

    python -m benchmarks products

Writes benchmarks/results/products.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch

from benchmarks import environment
from benchmarks.training import BATCH, adult_rows, plain_loop, together

MEMBERS, STREAMS, WIDTH, CRITIC_INPUTS = 25, 5, 64, 2
#: The cores that the limit in ``busy`` is about.
CORES = 2
TURNS, ITERATIONS = 7, 50


def shapes(inputs: int) -> list[tuple[int, int, int, int]]:
    """Stacks of products (count, rows, inner, columns) of one iteration of all members."""
    group = MEMBERS // STREAMS * WIDTH  # the members of a seed share rows
    pairs = 2 * BATCH
    dense = [(WIDTH, WIDTH, BATCH), (WIDTH, BATCH, WIDTH), (WIDTH, WIDTH, BATCH)]
    head = [(1, WIDTH, BATCH), (1, BATCH, WIDTH), (WIDTH, 1, BATCH)]
    forward = [(WIDTH, CRITIC_INPUTS, pairs), (WIDTH, WIDTH, pairs), (1, WIDTH, pairs)]
    to_scores = [(WIDTH, 1, pairs), (WIDTH, WIDTH, pairs)]
    weights = [(1, pairs, WIDTH), (WIDTH, pairs, WIDTH), (WIDTH, pairs, CRITIC_INPUTS)]
    critic = [*forward, *to_scores, *weights]  # its own step
    penalty = [*forward, *to_scores, (CRITIC_INPUTS, WIDTH, pairs)]
    return [
        *[(STREAMS, group, inputs, BATCH), (STREAMS, group, BATCH, inputs)],
        *[(MEMBERS, *shape) for shape in (*2 * dense, *head, *critic, *penalty)],
    ]


def main() -> None:
    torch.set_num_threads(1)
    data = adult_rows()
    stacks = shapes(data.x.shape[1])
    factors = [(torch.randn(k, n, m), torch.randn(k, m, p)) for k, n, m, p in stacks]

    def products() -> None:
        for _ in range(ITERATIONS):
            for left, right in factors:
                torch.bmm(left, right)

    def milliseconds(work: Callable[[], object]) -> float:
        begun = time.process_time()
        work()
        return 1000 * (time.process_time() - begun) / ITERATIONS

    def members() -> float:
        start_up = milliseconds(lambda: together(data, MEMBERS, 1))
        return milliseconds(lambda: together(data, MEMBERS, 1 + ITERATIONS)) - start_up

    turns = [
        (milliseconds(lambda: plain_loop(data, ITERATIONS)), members(), milliseconds(products))
        for _ in range(TURNS)
    ]
    loop, engine, each = (median(part) for part in zip(*turns, strict=True))
    flops = sum(2 * k * n * m * p for k, n, m, p in stacks)
    environment.write(
        "products",
        {
            "device": environment.device_name("cpu"),
            "versions": environment.versions(),
            "members": MEMBERS,
            "cores": CORES,
            "gflop": round(flops / 1e9, 3),
            "products_ms": round(each, 2),
            "gflop_a_second": round(flops / 1e6 / each, 1),
            "plain_loop_ms": round(loop, 3),
            "members_ms": round(engine, 2),
            "times_if_never_waiting": round(CORES * MEMBERS * loop / engine, 1),
            "times_if_only_products": round(CORES * MEMBERS * loop / each, 1),
        },
    )


if __name__ == "__main__":
    main()
