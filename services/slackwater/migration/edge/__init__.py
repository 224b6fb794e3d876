"""Events, translated."""
