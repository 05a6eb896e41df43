"""Claims of sentences, and what a restatement of them leaves out, changes and invents."""
