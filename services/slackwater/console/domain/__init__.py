"""What the console knows (views) and how it explains it (waterfall, chain): pure."""
