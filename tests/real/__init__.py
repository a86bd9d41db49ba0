"""What only real engines can show: a cluster that loses brokers, TLS and SASL, a run on engines of one's own."""
