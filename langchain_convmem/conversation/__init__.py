"""A conversation with a model: it remembers, calls tools, streams, and takes turns back."""
