"""The worst nights of production, tried on purpose: what was done, and what it found.

    python -m benchmarks.chaos [--runs N] [--seed SEED] [--only DRILL ...] [--json]

Every drill does something to a log that nobody wants to see, over and over with other seeds, and
then reads what is left with fresh eyes. A finding is a promise that did not hold; the exit code is
1 if there is any. All of it stays on this machine, in a folder of its own that is deleted.

Drills:
    forks          a process forks while logs are open: parents that close, exit, write, fork again
    alterations    one character of a stored entry is another; rows are deleted
    flips          a bit flips in a file
    tears          a file loses its end, or a part of it is zeros

`benchmarks.chaos.files` says what the words of alterations, flips and tears mean.
Acknowledged is what a call returned from. Lost: acknowledged, and not there. Doubled: there more
than once. Partial: a part of what was written at once.
"""
