"""What we ran and wrote about: the paper's tables and figures, its theory, boosting and its peers.

Not part of the installed package; run it from a checkout with ``python -m experiments``.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
