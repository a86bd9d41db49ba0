#!/usr/bin/env bash
# Run a command of manage.py as a task of the stack of services.yaml; print its log and end with its exit code.
# deploy/aws/setup.sh parley create_topics
set -euo pipefail
stack=${1:?the name of the stack of services.yaml}
shift
: "${1:?a command of manage.py, and its options}"

output() {
    aws cloudformation describe-stacks --stack-name "$stack" --output text \
        --query "Stacks[0].Outputs[?OutputKey=='$1'].OutputValue"
}

command=$(python3 -c 'import json, sys; print(json.dumps(["python", "manage.py", *sys.argv[1:]]))' "$@")
cluster=$(output Cluster)
started=$(aws ecs run-task --cluster "$cluster" --task-definition "$(output SetupTask)" --launch-type FARGATE \
    --network-configuration "awsvpcConfiguration={subnets=[$(output Subnets)],securityGroups=[$(output ProcessGroup)]}" \
    --overrides "{\"containerOverrides\": [{\"name\": \"setup\", \"command\": $command}]}" \
    --query '[tasks[0].taskArn, failures[0].reason]' --output text)
read -r task refusal <<< "$started"
if [ "$task" = None ]; then
    echo "AWS started no task: $refusal" >&2
    exit 2
fi
while true; do
    state=$(aws ecs describe-tasks --cluster "$cluster" --tasks "$task" --query 'tasks[0].lastStatus' --output text)
    [ "$state" != STOPPED ] || break
    sleep 5
done
code=$(aws ecs describe-tasks --cluster "$cluster" --tasks "$task" --query 'tasks[0].containers[0].exitCode' --output text)
if [ "$code" = None ]; then # The container did not start.
    aws ecs describe-tasks --cluster "$cluster" --tasks "$task" --query 'tasks[0].stoppedReason' --output text >&2
    exit 2
fi
# All pages of it: the CLI reads on by itself here, as it does not with get-log-events.
aws logs filter-log-events --log-group-name "$(output Logs)" --log-stream-names "setup/setup/${task##*/}" \
    --query 'events[].message' --output text | tr '\t' '\n'
exit "$code"
