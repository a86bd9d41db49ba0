"""The engines of the test suites: the embedded ones, or Apache Kafka and DynamoDB Local with `pytest --engines=real`.

Maven fetches the Java engines, pinned in `pom.xml`; Redis is a real server in both cases. All are `Engine`s, so a test
that kills or restarts one runs on either kind. The contract suite also runs on `moto`, a second emulator of AWS.
"""
