"""SVG drawings as pure functions. Geometry is computed here and tested; colours are CSS classes, kept in one style
sheet.
"""
