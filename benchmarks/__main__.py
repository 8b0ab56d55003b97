"""Run benchmarks: all with ``python -m benchmarks``, one with ``python -m benchmarks metrics``."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main(names: list[str]) -> None:
    found = [module.name for module in pkgutil.iter_modules(benchmarks.__path__)]
    available = [name for name in found if name != "__main__"]
    unknown = [name for name in names if name not in available]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are: {', '.join(available)}")
    for name in names or available:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
