"""The console's edges: events in; REST, gRPC, pages and a stream out."""
