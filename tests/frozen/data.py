"""Small seeded tables: numbers and categories, a mixed sensitive attribute, three outcomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Rows:
    """Features, outcomes by name, sensitive features by kind, and weights of the same rows."""

    features: pd.DataFrame
    outcomes: dict[str, NDArray]
    attributes: dict[str, pd.DataFrame]
    weights: NDArray[np.float64]


def rows(n: int = 300, *, seed: int = 7) -> Rows:
    random = np.random.default_rng(seed)
    age = random.uniform(20, 70, n).round(3)
    group = random.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2])
    # Only sums and products, whose last digits no library of functions can change.
    height = (age - 45) / 25 + 0.8 * (group == "north") + random.normal(size=n)
    width = random.normal(size=n)
    city = random.choice(["Ulm", "Bern", "Graz"], n)
    signal = height + 0.7 * width + 0.5 * (city == "Ulm") + random.normal(size=n)
    return Rows(
        features=pd.DataFrame(
            {
                "height": height.round(3),
                "width": width.round(3),
                "visits": random.integers(0, 6, n),
                "city": pd.Categorical(city, categories=["Bern", "Graz", "Ulm"]),
            }
        ),
        outcomes={
            "two classes": (signal > 0.4).astype(int),
            "three classes": np.array(["high", "low", "mid"])[
                np.where(signal > 1.2, 0, np.where(signal > -0.2, 2, 1))
            ],
            "numbers": signal.round(4) * 10 + 50,
        },
        attributes={
            "mixed": pd.DataFrame({"age": age, "group": group}),
            "discrete": pd.DataFrame({"group": group}),
            "continuous": pd.DataFrame({"age": age}),
            "two groups": pd.DataFrame({"group": np.where(group == "north", "north", "other")}),
        },
        weights=random.integers(1, 4, n).astype(float),
    )
