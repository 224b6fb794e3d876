"""HTTP, gRPC and events, translated."""
