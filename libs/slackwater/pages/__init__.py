"""HTML reports of one file: without network access, without scripts.

No figures are computed here, and no pages of the console: those are its templates.
"""
