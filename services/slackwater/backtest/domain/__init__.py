"""The evaluated span of a trace, the perfect forecast, and the error measures of a model. Pure."""
