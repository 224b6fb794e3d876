"""Events in: translate, call a use case, settle."""
