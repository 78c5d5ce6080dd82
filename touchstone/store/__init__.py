"""Bundles on disk: bytes to lines, and lines to disk so that nothing measured is lost.

lines (cut and follow logs), bundles (which folders are bundles, what is in them), write (append, replace),
lock (one writer a bundle). Only this package knows how files behave; nobody here knows what a line means.
"""
