"""Events and HTTP in, a use case called, an answer out."""
