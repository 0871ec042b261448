package kafkatest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// watchdog starts the broker in the place of the shell ("exec": the process id is the broker's) after leaving behind a
// reader of the pipe on standard input. The pipe's other end is held by the test process alone. When that process is gone,
// for whatever reason, the reader meets the end of the file, kills the broker and removes the data. A line on the pipe
// tells it that the broker has ended and been waited for, so that it never shoots at a process id that was given away.
const watchdog = `
dir=$1; shift
exec 3<&0
(
	trap '' INT TERM HUP
	read -r ended <&3 && exit 0
	kill -9 $$
	# Another broker of the cluster may be writing still; its own watchdog is at it too.
	for again in 1 2 3 4 5; do
		rm -rf -- "$dir" && break
		sleep 0.2
	done
) </dev/null >/dev/null 2>&1 &
exec "$@" </dev/null 3<&-
`

// node is one broker's process.
type node struct {
	layout
	cmd    *exec.Cmd
	pipe   *os.File      // the test process's end of the watchdog's pipe
	exited chan struct{} // closed when the process has ended
}

// nodeCommand is what all brokers of a cluster are started with.
type nodeCommand struct {
	java, classpath string
	jvm             []string
	root            string // removed by the watchdog
}

// start runs the broker. Its output is appended to the log file.
func (n *node) start(c nodeCommand) error {
	out, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("kafkatest: broker %d: %w", n.id, err)
	}
	defer out.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("kafkatest: broker %d: %w", n.id, err)
	}
	defer r.Close()
	args := []string{"-c", watchdog, "kafkatest", c.root, c.java}
	args = append(args, c.jvm...)
	args = append(args, "-cp", c.classpath, "kafka.Kafka", n.propertiesFile())
	cmd := exec.Command("sh", args...)
	cmd.Dir = n.dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, out, out
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		w.Close()
		return fmt.Errorf("kafkatest: broker %d: %w", n.id, err)
	}
	n.cmd, n.pipe, n.exited = cmd, w, make(chan struct{})
	go func(exited chan struct{}) {
		_ = cmd.Wait() // how it ended is in its log
		_, _ = io.WriteString(w, "ended\n")
		w.Close()
		close(exited)
	}(n.exited)
	return nil
}

// running tells whether the process was started and has not ended.
func (n *node) running() bool {
	if n.exited == nil {
		return false
	}
	select {
	case <-n.exited:
		return false
	default:
		return true
	}
}

// kill ends the process at once and waits for it.
func (n *node) kill() error {
	if !n.running() {
		return nil
	}
	if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kafkatest: broker %d: kill: %w", n.id, err)
	}
	<-n.exited
	return nil
}

// logTailBytes is how much of a broker's log is shown when something has failed.
const logTailBytes = 6 << 10

// logTail is the end of the broker's log, from the start of a line.
func (n *node) logTail() string {
	f, err := os.Open(n.logFile())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	cut := fi.Size() > logTailBytes
	if cut {
		if _, err := f.Seek(-logTailBytes, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	tail, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	if cut {
		_, tail, _ = bytes.Cut(tail, []byte("\n"))
	}
	return strings.TrimSpace(string(tail))
}

// portTaken tells whether the broker ended because another process had its port.
func (n *node) portTaken() bool {
	log, err := os.ReadFile(n.logFile())
	return err == nil && bytes.Contains(log, []byte("Address already in use"))
}
