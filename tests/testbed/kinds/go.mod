module portcullis.dev/testbed/kinds

go 1.26.0

// Only for their custom resource definitions: nothing of them is built.
require (
	github.com/kubeflow/spark-operator/v2 v2.3.0
	github.com/kubeflow/trainer/v2 v2.1.0
	github.com/project-codeflare/appwrapper v1.1.2
)
