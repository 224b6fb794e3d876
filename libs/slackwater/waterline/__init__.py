"""How far to throttle, restore or evict so that a waterline holds: pure, shared by ensurance and the agent."""
