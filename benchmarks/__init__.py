"""Measurements, not tests: run one with `python -m benchmarks.NAME --help`."""
