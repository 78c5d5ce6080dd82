"""How fast touchstone is, beside the least that the same work can cost.

    make bench                                  every case, about half an hour
    make bench ARGS="--only million --quick"    one case, smaller
    make bench ARGS="--peers"                   other programs on the same content too; installs them first

    content   deterministic bundles and pages        →  what is measured
    measure   processes: time, processor time, memory →  how
    figures   a number, its target, met or missed     →  what comes out, as a table and as JSON
    builds, startup, browser, live, judging, peers    →  the cases, a module a kind
    floor/    for each kind the least program that does the same work; no features, no checks, no module of ours

Ratios are taken within one run, the two programs in turn, because machines are never equally fast twice.
"""
