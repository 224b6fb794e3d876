"""One pass over a trace with all models side by side, and what is said of them afterwards."""
