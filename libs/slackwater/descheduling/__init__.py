"""Descheduling, pure: which pods would be better elsewhere. Plugins, protections, LowNodeLoad, rest after a move."""
