"""The one turn that every host runs: wrapped chains, conversations, graphs and agents."""
