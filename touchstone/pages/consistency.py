"""Does the judge say the same twice? The repeated verdicts in a sentence, for every page that is about the judge."""

from __future__ import annotations

from touchstone.i18n import Words
from touchstone.self_consistency import Consistency


def consistency_words(found: Consistency | None, words: Words) -> str:
    """The share of identical verdicts and the mean range, each with its n; empty where nothing was judged again."""
    if found is None:
        return ""
    if found.mean_range is None:
        text = words._("Judged again, but no answer got two scores, so nothing says whether the judge is consistent.")
    else:
        text = words.n_(
            "Judged again: %(k)s of %(n)s answer (%(share)s) got the same verdict every time; the scores of an answer"
            " are %(range)s points apart.",
            "Judged again: %(k)s of %(n)s answers (%(share)s) got the same verdict every time; on average the scores of"
            " an answer are %(range)s points apart.",
            found.n,
            k=words.number(found.identical),
            share=words.percent(found.share_identical),
            range=words.number(found.mean_range, 2),
        )
    if found.unscored:
        text += " " + words.n_("%(n)s repeat gave no score.", "%(n)s repeats gave no score.", found.unscored)
    return text
