"""Benchmarks: every module has a `main()` that prints ratios measured in one run."""
