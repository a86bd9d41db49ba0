"""The bucket for media. No process may reach it yet: uploads are not built (ADR-030)."""

from deploy.aws.names import Resources, arn, ref, sub


def media() -> Resources:
    """What is uploaded and not completed is deleted after a day, what no message has claimed after two."""
    return {
        "MediaBucket": {
            "Type": "AWS::S3::Bucket",
            "DeletionPolicy": "Retain",
            "UpdateReplacePolicy": "Retain",
            "Properties": {
                "PublicAccessBlockConfiguration": {
                    "BlockPublicAcls": True,
                    "BlockPublicPolicy": True,
                    "IgnorePublicAcls": True,
                    "RestrictPublicBuckets": True,
                },
                "BucketEncryption": {
                    "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
                },
                "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
                "LifecycleConfiguration": {
                    "Rules": [
                        {
                            "Id": "uploads",
                            "Status": "Enabled",
                            "Prefix": "uploads/",
                            "ExpirationInDays": 1,
                            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
                        },
                        {
                            "Id": "pending",
                            "Status": "Enabled",
                            "Prefix": "media/",
                            "TagFilters": [{"Key": "state", "Value": "pending"}],
                            "ExpirationInDays": 2,
                        },
                    ]
                },
            },
        },
        "MediaBucketTls": {
            "Type": "AWS::S3::BucketPolicy",
            "Properties": {
                "Bucket": ref("MediaBucket"),
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Sid": "OnlyTls",
                            "Effect": "Deny",
                            "Principal": "*",
                            "Action": "s3:*",
                            "Resource": [arn("MediaBucket"), sub("${MediaBucket.Arn}/*")],
                            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                        }
                    ],
                },
            },
        },
    }
