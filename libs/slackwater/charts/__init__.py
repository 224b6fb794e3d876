"""SVG by pure functions: stacks, lines and bars of series. Colours are CSS classes, so themes stay in one file.

No reading of data and no HTML around the pictures: pages of the console, the backtest and the simulation do both.
"""
