"""Events and HTTP."""
