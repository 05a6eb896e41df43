"""Texts that try to become structure: turns, speakers, dates, sections, fences.

    python -m benchmarks.injections [--json]

`attacks.json` holds the attacks as data: where each is planted, its text, and what must hold.
`templates.json` holds chat templates of all families that we know, in short, and by what their
prompts are structured. Each attack is planted once as it is and once as a harmless text of the same
shape, every visible character an x; what comes out is read by parsers that share no code with the
package. The attack succeeds if the two do not have the same structure.

Beside it the same is done the usual way: templates by plain Jinja2 in the sandbox of Hugging Face,
lines of speakers by `get_buffer_string` of LangChain, prompts by its `ChatPromptTemplate`.

    attacks     how many there are of a category
    ours        in how many the structure changed
    usual       the same, the usual way
    trust       of those that say which trust class their line must have: in how many it has another

Bar: none of ours. Exit code 1 where one succeeds. Those that do are named.
"""
