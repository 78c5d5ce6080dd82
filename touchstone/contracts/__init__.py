"""What touchstone reads and writes, as pydantic models: one module a kind of file.

pack (what is asked), manifest (bundle.yaml), lines (answers, verdicts, reports), response (the reference's form),
config (touchstone.yaml). The events of the two channels live with their views, in `events` and `judge_events`.
"""
