"""The engines under the suites: the embedded ones, or with `pytest --engines=real` those that users run.

Apache Kafka and DynamoDB Local come from Maven, pinned in `pom.xml`; Redis is a real server either way. The classes are
engines like those of `engines`, so a test that kills one, freezes one or restarts one needs no second version.
`moto` stands beside the embedded DynamoDB in the contract suite, as another reading of AWS's word.
"""
