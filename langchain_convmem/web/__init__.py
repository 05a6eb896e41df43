"""The web chat and the report: what `convmem web` and `convmem export --html` show.

Needs the extra `web`.

A server of its own over one memory, not a framework: what it shows comes from the public calls of
`ConversationMemory`, and nothing of it is public.
"""
