"""SVG by pure functions. Colours are CSS classes, so themes stay in one file."""
