"""Pure functions of entries: what the log means, seen from one side each. No I/O."""
