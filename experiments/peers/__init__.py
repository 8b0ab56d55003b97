"""Peers of fair boosting: how each is trained, judged like everything else, kept and compared."""
