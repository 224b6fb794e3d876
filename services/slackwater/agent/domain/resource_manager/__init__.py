"""Which CPUs, memory nodes and NICs a container gets on this node: messages, admission, plugins. Pure."""
