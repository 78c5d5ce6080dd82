"""The runs as notes for an Obsidian vault: what the notes are, and how they meet what stands there already. Pure.

    site → notes.plan (which notes, with which properties and which text) → template → note text → merge (keep what the
    user wrote) → written if changed

`names` makes note names and links, `safe` makes text harmless, `properties` writes frontmatter, `charts` draws, `base`
lists the notes as a database, `merge` decides what becomes of a note that is there already. Files are read and written
by `touchstone.vault_build`.
"""
