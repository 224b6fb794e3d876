"""Elastic quota trees: runtime, min scaling, admission, reclaim and validation. Pure."""
