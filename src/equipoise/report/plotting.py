"""Geometry of charts: where numbers lie on an axis, and outlines of areas, as text for SVG.

Charts are drawn in a box of `SIZE` by `SIZE` units that the page stretches to its own width and
height; labels stand beside it, in percent of the box, so that no text is ever stretched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: Width and height of the box in SVG units.
SIZE = 1000.0


@dataclass(frozen=True)
class Scale:
    """An axis from ``low`` to ``high``, low at 0 % and high at 100 %."""

    low: float
    high: float

    def percent(self, value: float) -> float:
        """Position of a value in percent of the axis, cut off at its ends.

        >>> Scale(2, 6).percent(3), Scale(2, 6).percent(9)
        (25.0, 100.0)
        """
        return round(100 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low))), 3)

    def ticks(self, *, about: int = 5) -> list[dict[str, object]]:
        """Some round numbers on the axis: label and position in percent."""
        return [
            {"label": f"{tick:g}", "at": self.percent(tick)}
            for tick in round_numbers(self, about=about)
        ]


def spanning(values: Iterable[float], *, margin: float = 0.0) -> Scale:
    """Return the axis that holds all finite values, with a margin as a share of their range.

    >>> spanning([1.0, math.nan, 3.0])
    Scale(low=1.0, high=3.0)
    """
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if low == high:
        low, high = low - 0.5, high + 0.5
    room = margin * (high - low)
    return Scale(low - room, high + room)


def round_numbers(scale: Scale, *, about: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten on the axis.

    >>> round_numbers(Scale(0.13, 0.92), about=5)
    [0.2, 0.4, 0.6, 0.8]
    """
    rough = (scale.high - scale.low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * (1 - 1e-9))
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    return [round(number * step, digits) + 0.0 for number in range(first, last + 1)]


def points(xs: Sequence[float], ys: Sequence[float], x: Scale, y: Scale) -> str:
    """Corners of a line, for the attribute ``points``; up is more."""
    return " ".join(_corner(x.percent(a), y.percent(b)) for a, b in zip(xs, ys, strict=True))


def area(
    xs: Sequence[float], lows: Sequence[float], highs: Sequence[float], x: Scale, y: Scale
) -> str:
    """Corners of the area between two lines."""
    return f"{points(xs, highs, x, y)} {points(xs[::-1], lows[::-1], x, y)}"


def stairs(shares: Sequence[float]) -> str:
    """Corners of a histogram of bins of equal width that fills the box, its highest bin to the top.

    >>> stairs([1.0, 2.0])
    '0,1000 0,500 500,500 500,0 1000,0 1000,1000'
    """
    top = max(shares) or 1.0
    width = 100 / len(shares)
    inside = (
        f"{_corner(bin * width, height)} {_corner((bin + 1) * width, height)}"
        for bin, height in enumerate(100 * share / top for share in shares)
    )
    return " ".join([_corner(0, 0), *inside, _corner(100, 0)])


def staircase(xs: Sequence[float], ys: Sequence[float], x: Scale, y: Scale) -> str:
    """Corners of a line that keeps its height until the next x, and then to the end of the axis.

    >>> staircase([0, 1], [0, 1], Scale(0, 2), Scale(0, 1))
    '0,1000 500,1000 500,0 1000,0'
    """
    corners = []
    for place, (a, b) in enumerate(zip(xs, ys, strict=True)):
        end = xs[place + 1] if place + 1 < len(xs) else x.high
        corners += [_corner(x.percent(a), y.percent(b)), _corner(x.percent(end), y.percent(b))]
    return " ".join(corners)


def _corner(across: float, up: float) -> str:
    """Turn percents into SVG units, whose second axis points down."""
    return f"{SIZE * across / 100:.6g},{SIZE * (100 - up) / 100:.6g}"
