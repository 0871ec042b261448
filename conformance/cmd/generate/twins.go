package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// twinSuffix ends the name of a scenario that Java ran with stores in memory.
const twinSuffix = "-memory"

// leaveOutTwins removes the vectors of twins that say what the scenario itself says: the order of Java's output did not
// depend on its kind of store, and a vector is replayed with both kinds of ours anyway. The manifest names them.
func leaveOutTwins(dir string) error {
	path := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	all, _ := m["scenarios"].([]any)
	var kept, same []string
	for _, s := range all {
		name, _ := s.(string)
		base, isTwin := strings.CutSuffix(name, twinSuffix)
		if isTwin && slices.Contains(all, any(base)) {
			equal, err := equalVectors(filepath.Join(dir, name+".jsonl.gz"), filepath.Join(dir, base+".jsonl.gz"), name, base)
			if err != nil {
				return err
			}
			if equal {
				same = append(same, name)
				continue
			}
		}
		kept = append(kept, name)
	}
	m["scenarios"], m["same"] = kept, same
	out, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(out, '\n'), 0o644); err != nil {
		return err
	}
	for _, name := range same {
		if err := os.Remove(filepath.Join(dir, name+".jsonl.gz")); err != nil {
			return err
		}
	}
	return nil
}

// equalVectors compares two vectors but for their heads, which name the scenario and Java's kind of store.
func equalVectors(a, b, nameA, nameB string) (bool, error) {
	linesA, err := linesBehindHead(a)
	if err != nil {
		return false, err
	}
	linesB, err := linesBehindHead(b)
	if err != nil {
		return false, err
	}
	return bytes.Equal(bytes.ReplaceAll(linesA, []byte(nameA), []byte(nameB)), linesB), nil
}

func linesBehindHead(path string) (lines []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := bufio.NewReader(z)
	if _, err := r.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return io.ReadAll(r)
}
