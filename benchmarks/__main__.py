"""Run benchmarks: ``python -m benchmarks`` runs all that take a few minutes, else give a name.

Options after the name, as in ``python -m benchmarks compiled --out FILE``, are for that benchmark.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks

#: Modules that benchmarks share; they are no benchmarks.
SHARED = ("environment", "page")


def main(names: list[str]) -> None:
    found = [module.name for module in pkgutil.iter_modules(benchmarks.__path__)]
    available = [name for name in found if name not in SHARED and name != "__main__"]
    unknown = [name for name in names if name not in available]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are: {', '.join(available)}")
    for name in names or available:
        benchmark = importlib.import_module(f"benchmarks.{name}")
        if not names and getattr(benchmark, "LONG", False):
            print(f"== {name} takes long: python -m benchmarks {name}", flush=True)
            continue
        print(f"== {name}", flush=True)
        benchmark.main()


if __name__ == "__main__":
    given = sys.argv[1:]
    first = next((place for place, word in enumerate(given) if word.startswith("-")), len(given))
    sys.argv[1:] = given[first:]
    main(given[:first])
