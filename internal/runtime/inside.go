package runtime

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"runtime/pprof"
	"strings"
)

// The labels of goroutines that run tasks. Profiles of the process show them too.
const (
	taskLabel = "millrace_task"
	lifeLabel = "millrace_life"
)

// marked is the context whose labels mark a goroutine that runs the task.
func (l *life) marked(appID string) context.Context {
	if l.labels == nil {
		l.labels = pprof.WithLabels(context.Background(), pprof.Labels(taskLabel, appID+"/"+l.name, lifeLabel, fmt.Sprintf("%p", l)))
	}
	return l.labels
}

// inside tells which user code the worker of a task is in: the innermost functions that are neither of the standard library nor
// of the engine, with their lines. It stops the process for a moment, so it is for tasks that are given up, not for each record.
func inside(l *life) string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return ""
	}
	return userCode(b.String(), fmt.Sprintf("%q:\"%p\"", lifeLabel, l))
}

// userCode finds user code in the text of a goroutine profile, in the goroutine that has a label.
func userCode(profile, label string) string {
	for stack := range strings.SplitSeq(profile, "\n\n") {
		if !strings.Contains(stack, label) {
			continue
		}
		var calls []string
		for line := range strings.Lines(stack) {
			f := strings.Fields(line) // # address function+offset file:line
			if len(f) < 4 || f[0] != "#" || !strings.HasPrefix(f[1], "0x") {
				continue
			}
			name := f[2]
			if i := strings.LastIndexByte(name, '+'); i > 0 {
				name = name[:i]
			}
			if len(calls) < 3 && !ofEngine(name) {
				calls = append(calls, fmt.Sprintf("%s (%s)", name, filepath.Base(f[len(f)-1])))
			}
		}
		return strings.Join(calls, " < ")
	}
	return ""
}

// ofEngine tells functions of the engine and of the standard library.
func ofEngine(function string) bool {
	if rest, ok := strings.CutPrefix(function, "github.com/millrace-io/millrace"); ok {
		for _, own := range []string{".", "/internal/op.", "/internal/task.", "/internal/runtime.", "/internal/cache.", "/internal/state."} {
			if strings.HasPrefix(rest, own) {
				return true
			}
		}
		return false
	}
	first := function[:strings.IndexAny(function+".", "./")]
	switch first {
	case "archive", "bufio", "bytes", "cmp", "compress", "container", "context", "crypto", "database", "debug", "embed", "encoding", "errors", "expvar",
		"flag", "fmt", "go", "hash", "html", "image", "index", "internal", "io", "iter", "log", "maps", "math", "mime", "net", "os", "path", "plugin",
		"reflect", "regexp", "runtime", "slices", "sort", "strconv", "strings", "structs", "sync", "syscall", "testing", "text", "time", "unicode",
		"unique", "vendor", "weak":
		// A domain begins as the name of a package of the standard library may: go.example.org/x, net.example.org/y.
		dir, _, nested := strings.Cut(function, "/")
		return !nested || dir == first
	}
	return false
}
