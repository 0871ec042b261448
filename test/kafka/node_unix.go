//go:build unix

package kafkatest

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps an interrupt at the terminal away from the broker: the test process gets it, and the broker ends with
// the test process.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks the process to shut down.
func terminate(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGTERM) }
