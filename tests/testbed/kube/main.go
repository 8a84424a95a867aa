// One binary for a whole control plane: `kube PROGRAM ARGS…`, where PROGRAM is etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler or kubectl. One link step
// instead of five, and most of the code is shared.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // time zones of CronJobs

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kube etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubectl ARGS…")
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	switch program := os.Args[0]; program {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		serve(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		serve(controllermanager.NewControllerManagerCommand())
	case "kube-scheduler":
		serve(scheduler.NewSchedulerCommand())
	case "kubectl":
		if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
	default:
		fmt.Fprintf(os.Stderr, "kube: no program %q here\n", program)
		os.Exit(2)
	}
}

func serve(command *cobra.Command) { os.Exit(cli.Run(command)) }
