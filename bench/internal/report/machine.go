package report

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// Machine is where and with what the benchmark ran.
type Machine struct {
	CPU         string    `json:"cpu"`
	Cores       int       `json:"cores"`
	MemoryBytes int64     `json:"memory_bytes"`
	OS          string    `json:"os"`
	Go          string    `json:"go"`
	Java        string    `json:"java"`
	Kafka       string    `json:"kafka"`
	LoadBefore  float64   `json:"load_before"` // mean number of runnable processes in the minute before: not a quiet machine if above 0.5
	At          time.Time `json:"at"`
}

// ThisMachine describes the machine. What cannot be found out is left empty.
func ThisMachine(java string) Machine {
	return Machine{
		CPU:         procField("/proc/cpuinfo", "model name"),
		Cores:       runtime.NumCPU(),
		MemoryBytes: memoryBytes(procField("/proc/meminfo", "MemTotal")),
		OS:          runtime.GOOS + "/" + runtime.GOARCH,
		Go:          runtime.Version(),
		Java:        java,
		Kafka:       kafkatest.Version,
		LoadBefore:  load(),
		At:          time.Now().UTC().Truncate(time.Second),
	}
}

// procField is the first value of a "name: value" line.
func procField(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func memoryBytes(kb string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(kb, " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return n
}
