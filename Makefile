# Real clusters for people and tests: tests/testbed/.
TESTBED = cargo run --quiet --locked -p portcullis-testbed --bin testbed --

.PHONY: testbed-build clusters clusters-down

testbed-build: ## Builds etcd, the control plane, kubectl and KWOK, once per machine (minutes)
	@tests/testbed/build.sh

clusters: ## Starts a manager and two workers, prints their kubeconfigs
	@$(TESTBED) clusters

clusters-down: ## Ends them
	@$(TESTBED) down
