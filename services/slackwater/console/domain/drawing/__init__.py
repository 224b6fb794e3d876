"""SVG by pure functions. Geometry is computed here and tested; colours are CSS classes, so themes stay in one file."""
