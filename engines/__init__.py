"""The engines of the default run: DynamoDB, Kafka and Redis on this machine, started and stopped by `manage.py dev`.

One class per engine (`DynamoDbEngine`, `KafkaEngine`, `RedisEngine`), each a context manager that yields its endpoint,
so that tests start exactly what `dev` starts. Nothing here knows about Parley's data, and no application code imports
it: our own processes learn of the engines through the contract's environment variables, as they do in production.
DynamoDB and Kafka are our own (`dynamolite`, `kafkalite`), Redis is a server from a package or from PATH.

No engine outlives the process that started it, however that process ends.
"""
