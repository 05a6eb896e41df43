"""The formats that are read. A format is known by a file's content, never by its name.

To add one: a function that says whether a file is meant to be of this format, one that returns its
threads, and what such a file looks like, in one phrase; then its reader below. An export that is a
list of conversations needs two others instead: the key by which a conversation is known, and a
function that reads the tree of its messages.
"""

from __future__ import annotations

from langchain_convmem.transfer.formats import chatgpt, claude, convmem, langchain, maps, openai

EXPORTS = (chatgpt.EXPORT, claude.EXPORT)
# Those of a certain form stand first: the last one takes whatever looks like messages.
READERS = (convmem.READER, *langchain.READERS, maps.READER, openai.READER)
