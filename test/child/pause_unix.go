//go:build unix

package child

import (
	"fmt"
	"syscall"
)

// Pause stops the process with SIGSTOP, as a machine does that is suspended.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("child: %v to %s: %w", s, p.name, err)
	}
	return nil
}
