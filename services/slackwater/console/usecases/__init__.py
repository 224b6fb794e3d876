"""The console's use cases, one module each: recording events and answering queries."""
