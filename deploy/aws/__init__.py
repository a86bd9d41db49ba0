"""CloudFormation: `data.yaml` is made by `manage.py aws_template --write`, `services.yaml` is an example to adapt."""
