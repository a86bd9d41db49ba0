"""The stores of a local run: DynamoDB, Kafka and Redis as child processes, and the supervisor that runs them.

Each engine (`DynamoDbEngine`, `KafkaEngine`, `RedisEngine`) is a context manager that yields its endpoint. DynamoDB and
Kafka are implemented here (`dynamolite`, `kafkalite`); Redis is a server from PATH or from PyPI. `Supervisor` runs
engines and commands as a `RunPlan` describes them.

This package imports nothing of the application, and the application finds the engines by environment variables only.
No child process outlives the process that started it.
"""
