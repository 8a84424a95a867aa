// The types whose CRDs controller-gen generates: build.sh runs it here.
package types

import _ "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
