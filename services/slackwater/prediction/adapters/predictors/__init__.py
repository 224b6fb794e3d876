"""Registry of peak models: settings, factories, and models that other distributions install."""
