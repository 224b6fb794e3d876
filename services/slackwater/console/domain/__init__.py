"""The console's views and their explanations (waterfall, chain). Pure."""
