"""The benchmark: throughput, latency and cost per message of a running Parley. It asserts correctness, never speed."""
