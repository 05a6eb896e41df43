"""Runs data cases against the public API: one module for each kind of case."""
