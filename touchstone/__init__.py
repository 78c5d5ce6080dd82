"""touchstone: is this model good enough for what I want, and can I trust the judge that says so?

One path leads from a run to a page, and each step is the module of that name:

    runs/*.jsonl -> store (bytes to lines) -> contracts, events, judge_events (lines to values)
      -> fold (values to one view a bundle) -> scorecard, judge_compare (figures)
      -> site and pages (the plan: which page is made from what) -> render -> build (write if changed)

`eval` (runner, chat) and `judge` (judge, chat) are the two that write into `runs/`; everything else only reads it.
The steps from contracts to render are pure: time, randomness and files come in as arguments.
"""

__version__ = "0.1.0"
