"""The clients of the engines: DynamoDB (source of truth), Kafka (event log), Redis (routing state).

Owns timeouts, bounded retries, metrics and the names of failures. No client reads settings: `config.wiring` passes in
what it needs.
"""
