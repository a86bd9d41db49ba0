"""The three engines' clients: DynamoDB (the truth), Kafka (what happened), Redis (who is where).

Timeouts, bounded retries, counters and the naming of failures live here, once. No client reads settings: what it needs
is passed in by `config.wiring`.
"""
