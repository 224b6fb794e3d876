"""A history under several strategies at once; what a history says of what could be lent."""
