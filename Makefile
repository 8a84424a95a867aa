# Real clusters for people and tests, and the demo: tests/testbed/.
TESTBED = cargo build --locked -p portcullis-testbed --bin testbed && cargo run --quiet --locked -p portcullis-testbed --bin testbed --
# The portcullis that the demo shows.
PORTCULLIS ?= target/release/portcullis

.PHONY: testbed-build testbed-build-gang testbed-build-kinds testbed-build-versions clusters clusters-down demo demo-down

testbed-build: ## Builds etcd, the control plane, kubectl and KWOK, once per machine (minutes)
	@tests/testbed/build.sh

testbed-build-gang: ## Builds a gang scheduler and the operators of jobs as well (minutes more)
	@tests/testbed/build.sh --gang

testbed-build-kinds: ## Builds KubeRay and fetches the definitions of more kinds of jobs as well (2 minutes)
	@tests/testbed/build.sh --kinds

testbed-build-versions: ## Builds the control planes of Kubernetes 1.36 and 1.35 as well (7 minutes each)
	@tests/testbed/build.sh --version 1.36
	@tests/testbed/build.sh --version 1.35

clusters: ## Starts a manager and two workers, prints their kubeconfigs
	@$(TESTBED) clusters

clusters-down: ## Ends them
	@$(TESTBED) down

demo: $(if $(filter target/release/portcullis,$(PORTCULLIS)),demo-binary) ## Shows portcullis on three real clusters; KEEP=1 leaves it running
	@$(TESTBED) demo --binary $(PORTCULLIS) $(if $(KEEP),--keep)

demo-down: ## Ends what `make demo KEEP=1` left
	@$(TESTBED) demo-down

.PHONY: demo-binary
demo-binary:
	@cargo build --locked --release --bin portcullis

# Figures.

.PHONY: bench

bench: ## Prints admission and translation (criterion), reviews over TLS (wrk), pods and whole jobs beside a bare client, jobs with gangs
	@cargo bench --locked --bench admission
	@cargo bench --locked --bench wrk
	@cargo bench --locked --bench dispatch
	@cargo bench --locked --bench gang

# Checks.

.PHONY: test

test: ## All checks and tests, real clusters included
	@tests/run.sh

.PHONY: test-versions

test-versions: ## Installation and native gangs on Kubernetes 1.36 and 1.35, whose control planes take 7 minutes each to build; not in `make test`
	@cargo test --locked --test versions

.PHONY: chaos faulty

faulty: ## Builds portcullis with its test-only faults, for the tests that show what the judge of `make chaos` sees
	@cargo build --locked --bin portcullis --features faults
	@mkdir -p target/faulty && cp target/debug/portcullis target/faulty/portcullis.new
	@mv target/faulty/portcullis.new target/faulty/portcullis

chaos: ## Everything goes wrong at once for CHAOS_SECONDS (300); CHAOS_SEED repeats a run
	@CHAOS_SECONDS=$${CHAOS_SECONDS:-300} cargo test --locked --test chaos -- storm

MUTANTS_VERSION = 27.1.0
MUTANTS = $${XDG_CACHE_HOME:-$$HOME/.cache}/portcullis-tools/cargo-mutants-$(MUTANTS_VERSION)

# Its globs; `make mutants MUTATE='src/admission/validate.rs src/placement/**'` does a part.
MUTATE ?= src/workload/** src/gang/** src/quantity/** src/pod/** src/placement/** src/reconcile/pair/plan.rs src/reconcile/pair/plan/** \
  src/admission/decide.rs src/admission/mutate.rs src/admission/mutate/** src/admission/validate.rs

.PHONY: mutants

mutants: ## Changes the pure folders in every small way; each change should fail a test (hours; MUTATE: a part; not in CI)
	@test -x $(MUTANTS)/bin/cargo-mutants || \
	  cargo install --quiet --locked cargo-mutants --version $(MUTANTS_VERSION) --root $(MUTANTS)
	@PATH=$(MUTANTS)/bin:$$PATH cargo mutants --package portcullis $(foreach glob,$(MUTATE),-f '$(glob)') --cargo-arg=--lib --cargo-arg=--test=it
