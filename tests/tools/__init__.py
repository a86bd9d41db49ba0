"""Only with `make test-deploy`: other projects' programs on the files of `deploy/`. Without them the tests fail."""
