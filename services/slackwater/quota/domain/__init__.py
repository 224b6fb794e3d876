"""Claims, queues and totals as pure functions."""
