"""Seeded frames, outcomes, attributes and weights of every kind into every public entry.

One integer is one case. ``python -m tests.fuzz --seed 12345`` repeats it and prints what was given
and what came of it; ``--cases``, ``--minutes`` and ``--workers`` run many. A case is answered,
refused (by an error that names what to correct), or a fault: a foreign error, nonsense, too slow.
"""
