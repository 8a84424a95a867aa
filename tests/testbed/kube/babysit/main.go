// A small companion of the test bed, kept apart from `kube` so that it costs 2 MB and no start-up time.
//
//	babysit run PIDFILE PROGRAM …  runs PROGRAM until it ends or stdin closes: whoever holds the other end
//	                               of stdin may die in any way and nothing is left behind. A line on stdin
//	                               (TERM, KILL, STOP, CONT) is sent on as that signal: only the parent can
//	                               signal a process id without the risk that it is somebody else's by now
//	babysit detach LOG PROGRAM …   starts PROGRAM in a session of its own, prints its process id, returns
//	babysit genkey FILE            writes a new RSA key in PEM: signs ServiceAccount tokens
package main

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// How long a program may take to end after SIGTERM.
const grace = 5 * time.Second

// The kernel sends Pdeathsig when the *thread* that forked dies: keep main on the first one, which lives longest.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) < 3 {
		fail("usage: babysit run PIDFILE PROGRAM ARGS… | detach LOG PROGRAM ARGS… | genkey FILE")
	}
	switch what, args := os.Args[1], os.Args[2:]; what {
	case "run":
		if len(args) < 2 {
			fail("babysit run: no program")
		}
		os.Exit(run(args[0], args[1:]))
	case "detach":
		detach(args[0], args[1:])
	case "genkey":
		genkey(args[0])
	default:
		fail("babysit: no command %q", what)
	}
}

func run(pidfile string, args []string) int {
	child := exec.Command(args[0], args[1:]...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	// Own group: Ctrl-C on the terminal reaches the harness, which then ends its clusters in order.
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	if err := child.Start(); err != nil {
		fail("babysit: %v", err)
	}
	writePid(pidfile, child.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	orders := make(chan syscall.Signal)
	go obey(orders)
	for {
		select {
		case err := <-ended:
			return code(err)
		case order, open := <-orders:
			if open {
				child.Process.Signal(order)
				continue
			}
		case <-terminated:
		}
		return finish(child.Process, ended)
	}
}

// finish asks the program to end, then insists. A stopped one must go on to see the question.
func finish(process *os.Process, ended <-chan error) int {
	process.Signal(syscall.SIGTERM)
	process.Signal(syscall.SIGCONT)
	select {
	case err := <-ended:
		return code(err)
	case <-time.After(grace):
		process.Kill()
		return code(<-ended)
	}
}

// obey turns lines of stdin into signals and closes the channel when stdin closes.
func obey(orders chan<- syscall.Signal) {
	known := map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if order, ok := known[lines.Text()]; ok {
			orders <- order
		}
	}
	close(orders)
}

// writePid puts the number there in one step: a reader sees all of it or no file.
func writePid(file string, pid int) {
	if err := os.WriteFile(file+".new", []byte(strconv.Itoa(pid)), 0o644); err != nil {
		fail("babysit: %v", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		fail("babysit: %v", err)
	}
}

func code(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode()
	}
	if err != nil {
		return 1
	}
	return 0
}

func detach(log string, args []string) {
	if len(args) == 0 {
		fail("babysit detach: no program")
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		fail("babysit: %v", err)
	}
	child := exec.Command(args[0], args[1:]...)
	child.Stdout, child.Stderr = out, out
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		fail("babysit: %v", err)
	}
	fmt.Println(child.Process.Pid)
}

func genkey(file string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		fail("babysit: %v", err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		fail("babysit: %v", err)
	}
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}
