package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// catalogue says which incarnation each store of each task has. It is a log of lines, each synced before the change that
// it speaks of takes effect; opening rewrites it without what is gone.
//
// A line is the CRC-32C of its JSON in eight hex digits, a space, and the JSON. An end that was torn off is ignored: what
// it said never took effect.
type catalogue struct {
	fs   vfs.FS
	dir  string
	file vfs.File // open for appending; nil after a failed write, the next change rewrites the file

	next    incarnation // the next fresh one; none is ever used twice
	entries map[storeID]*entry
}

type storeID struct{ task, store string }

// entry is one store. An unlogged one is clean after a regular stop only.
type entry struct {
	id     storeID
	inc    incarnation
	kind   Kind
	logged bool
	clean  bool
	// headers says that values begin with headers.
	headers bool
	// left says that the task has been opened without the store since: what was processed meanwhile is not in it.
	left bool
}

// line is one line of the file.
type line struct {
	Op          string      `json:"op"` // format, add, drop, clean, unclean, leave
	Format      int         `json:"format,omitempty"`
	Incarnation incarnation `json:"incarnation"` // of format: the next fresh one
	Task        string      `json:"task,omitempty"`
	Store       string      `json:"store,omitempty"`
	Kind        string      `json:"kind,omitempty"`
	Logged      bool        `json:"logged,omitempty"`
	Clean       bool        `json:"clean,omitempty"`
	Headers     bool        `json:"headers,omitempty"`
	Left        bool        `json:"left,omitempty"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (l *line) append(dst []byte) ([]byte, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return dst, err
	}
	dst = fmt.Appendf(dst, "%08x ", crc32.Checksum(b, castagnoli))
	return append(append(dst, b...), '\n'), nil
}

func parseLine(b []byte) (line, error) {
	var l line
	if len(b) < 10 || b[8] != ' ' {
		return l, errors.New("it is too short")
	}
	sum, err := strconv.ParseUint(string(b[:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(b[9:], castagnoli) {
		return l, errors.New("its checksum does not fit")
	}
	return l, json.Unmarshal(b[9:], &l)
}

// openCatalogue reads the file, if there is one, and rewrites it.
func openCatalogue(fs vfs.FS, dir string) (*catalogue, error) {
	c := &catalogue{fs: fs, dir: dir, next: 1, entries: make(map[storeID]*entry)}
	b, err := readFile(fs, fs.PathJoin(dir, catalogueFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("millrace: cannot read the catalogue of the state directory %s: %w", dir, err)
	}
	if err := c.replay(b); err != nil {
		return nil, fmt.Errorf("%w: the catalogue in %s: %w", ErrCorrupt, dir, err)
	}
	if err := c.rewrite(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *catalogue) replay(b []byte) error {
	lines := bytes.SplitAfter(b, []byte("\n"))
	for i, raw := range lines {
		if len(raw) == 0 {
			continue
		}
		text, whole := bytes.CutSuffix(raw, []byte("\n"))
		l, err := parseLine(text)
		last := i == len(lines)-1 || len(bytes.TrimSpace(bytes.Join(lines[i+1:], nil))) == 0
		if last && (err != nil || !whole) {
			return nil
		}
		if err == nil {
			err = c.apply(&l)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return nil
}

// apply carries out one line.
func (c *catalogue) apply(l *line) error {
	id := storeID{l.Task, l.Store}
	e := c.entries[id]
	switch l.Op {
	case "format":
		if l.Format != formatVersion {
			return fmt.Errorf("it has the unknown format %d", l.Format)
		}
		c.next = max(c.next, l.Incarnation)
	case "add":
		kind := kindNamed(l.Kind)
		if kind == 0 {
			return fmt.Errorf("it names the unknown kind %q", l.Kind)
		}
		c.entries[id] = &entry{id: id, inc: l.Incarnation, kind: kind, logged: l.Logged, clean: l.Clean, headers: l.Headers, left: l.Left}
		c.next = max(c.next, l.Incarnation+1)
	case "drop":
		if e != nil && e.inc == l.Incarnation {
			delete(c.entries, id)
		}
	case "clean", "unclean":
		if e != nil && e.inc == l.Incarnation {
			e.clean = l.Op == "clean"
		}
	case "leave":
		if e != nil && e.inc == l.Incarnation {
			e.left = true
		}
	default:
		return fmt.Errorf("it holds the unknown operation %q", l.Op)
	}
	return nil
}

func kindNamed(name string) Kind {
	for _, k := range []Kind{KeyValue, Window, Session, Versioned} {
		if k.String() == name {
			return k
		}
	}
	return 0
}

// change writes lines, makes them durable, and then carries them out.
func (c *catalogue) change(lines ...line) error {
	if len(lines) == 0 {
		return nil
	}
	if c.file == nil {
		if err := c.rewrite(); err != nil {
			return err
		}
	}
	var b []byte
	for i := range lines {
		var err error
		if b, err = lines[i].append(b); err != nil {
			return err
		}
	}
	_, err := c.file.Write(b)
	if err == nil {
		err = c.file.Sync()
	}
	if err != nil {
		_ = c.close() // what of it is on disk is not known: the next change writes all of it anew
		return fmt.Errorf("millrace: cannot write the catalogue of the state directory %s: %w", c.dir, err)
	}
	for i := range lines {
		if err := c.apply(&lines[i]); err != nil {
			return err
		}
	}
	return nil
}

// add is the line that gives a store a fresh incarnation, which replaces the one that it has.
func (c *catalogue) add(id storeID, spec Spec, fresh incarnation) line {
	return line{Op: "add", Incarnation: fresh, Task: id.task, Store: id.store, Kind: spec.Kind.String(), Logged: spec.Logged, Headers: spec.KeepHeaders}
}

func (e *entry) line(op string) line {
	return line{Op: op, Incarnation: e.inc, Task: e.id.task, Store: e.id.store}
}

// sorted returns the entries by incarnation.
func (c *catalogue) sorted() []*entry {
	list := make([]*entry, 0, len(c.entries))
	for _, e := range c.entries {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *entry) int {
		if a.inc < b.inc {
			return -1
		}
		return 1
	})
	return list
}

// rewrite replaces the file by one that says what the catalogue holds, and opens it for appending.
func (c *catalogue) rewrite() error {
	head := line{Op: "format", Format: formatVersion, Incarnation: c.next}
	b, err := head.append(nil)
	for _, e := range c.sorted() {
		if err != nil {
			break
		}
		l := c.add(e.id, Spec{Kind: e.kind, Logged: e.logged, KeepHeaders: e.headers}, e.inc)
		l.Clean, l.Left = e.clean, e.left
		b, err = l.append(b)
	}
	if err == nil {
		err = c.replace(b)
	}
	if err != nil {
		return fmt.Errorf("millrace: cannot write the catalogue of the state directory %s: %w", c.dir, err)
	}
	return nil
}

func (c *catalogue) replace(b []byte) error {
	_ = c.close()
	temp := c.fs.PathJoin(c.dir, catalogueFile+".new")
	f, err := c.fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = c.fs.Rename(temp, c.fs.PathJoin(c.dir, catalogueFile))
	}
	if err == nil {
		err = syncDir(c.fs, c.dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	c.file = f
	return nil
}

func (c *catalogue) close() error {
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}
