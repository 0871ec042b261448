package conformance

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/serde"
)

// format is the version of the vectors' format that README.md describes.
const format = 1

// record is a record of a topic; a nil key or value is a null.
type record struct {
	topic      string
	key, value []byte
	tsMs       int64
	headers    serde.Headers
	step       int // which step of the input it is, or came after
}

// step is a step of the input: a record, or the wall clock moves on.
type step struct {
	record
	advanceMs int64 // not 0: no record
}

// internalTopic is what Kafka Streams says of an internal topic.
type internalTopic struct {
	name       string
	configs    map[string]string
	partitions int32 // 0: not set by the program
	buffer     bool  // the changelog of a buffer
}

// progress is what the metadata of a committed offset says, as a map.
type progress struct {
	step    int
	topic   string
	timeMs  int64
	entries map[string]int64
}

// vector is one run of a scenario by Kafka Streams.
type vector struct {
	scenario    string
	seed        int64
	application string
	wallMs      int64
	describe    string
	internal    []internalTopic
	input       []step
	output      []record
	progress    []progress
	failure     string // what the run ended with; empty: it did not fail
}

// folder is the vectors of one seed.
type folder struct {
	dir       string
	seed      int64
	complete  bool     // all scenarios are meant to be there
	scenarios []string // sorted
	same      []string // twins with stores in memory whose vector is that of the scenario itself, and left out
}

type manifest struct {
	Format    int      `json:"format"`
	Seed      int64    `json:"seed"`
	Complete  bool     `json:"complete"`
	Scenarios []string `json:"scenarios"`
	Same      []string `json:"same"`
}

// openFolders reads the manifests under a folder: its own, or those of the folders seed-* in it.
func openFolders(dir string) ([]folder, error) {
	if _, err := os.Stat(filepath.Join(dir, "manifest.json")); err == nil {
		f, err := openFolder(dir)
		if err != nil {
			return nil, err
		}
		return []folder{f}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []folder
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), "seed-") {
			continue
		}
		f, err := openFolder(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no vectors in %s: neither a manifest.json nor folders seed-N", dir)
	}
	return all, nil
}

// openFolder reads a manifest and holds it against the files that are there.
func openFolder(dir string) (folder, error) {
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return folder{}, fmt.Errorf("%s is not finished, or not a folder of vectors: %w", dir, err)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return folder{}, fmt.Errorf("%s: manifest.json: %w", dir, err)
	}
	if m.Format != format {
		return folder{}, fmt.Errorf("%s has the format %d, this test reads %d: generate it anew", dir, m.Format, format)
	}
	if len(m.Scenarios) == 0 {
		return folder{}, fmt.Errorf("%s: manifest.json lists no scenario", dir)
	}
	slices.Sort(m.Scenarios)
	files, err := os.ReadDir(dir)
	if err != nil {
		return folder{}, err
	}
	for _, f := range files {
		name, _, _ := strings.Cut(f.Name(), ".jsonl")
		if f.Name() != "manifest.json" && !slices.Contains(m.Scenarios, name) {
			return folder{}, fmt.Errorf("%s: %s is not in manifest.json", dir, f.Name())
		}
	}
	return folder{dir: dir, seed: m.Seed, complete: m.Complete, scenarios: m.Scenarios, same: m.Same}, nil
}

// line is one line of a vector: the fields that are set tell its kind.
type line struct {
	Scenario    string `json:"scenario"`
	Seed        int64  `json:"seed"`
	Format      int    `json:"format"`
	Application string `json:"application"`
	Wall        int64  `json:"wall"`

	Describe string `json:"describe"`

	Internal   string          `json:"internal"`
	Config     json.RawMessage `json:"config"`
	Partitions int32           `json:"partitions"`
	Buffer     bool            `json:"buffer"`

	In      string       `json:"in"`
	Out     string       `json:"out"`
	Key     *string      `json:"k"`
	Value   *string      `json:"v"`
	TsMs    int64        `json:"t"`
	Headers [][2]*string `json:"h"`

	Advance int64 `json:"advance"`

	Offset  string           `json:"offset"`
	Time    int64            `json:"time"`
	Entries map[string]int64 `json:"entries"`

	Fails   string `json:"fails"`
	Message string `json:"message"`

	End     bool `json:"end"`
	Inputs  int  `json:"inputs"`
	Outputs int  `json:"outputs"`
}

// read reads the vector of a scenario, compressed or not.
func (f folder) read(scenario string) (*vector, error) {
	path := filepath.Join(f.dir, scenario+".jsonl")
	file, err := os.Open(path)
	var in io.Reader = file
	if errors.Is(err, os.ErrNotExist) {
		path += ".gz"
		if file, err = os.Open(path); err != nil {
			return nil, fmt.Errorf("the vector of a scenario of the manifest is missing: %w", err)
		}
		if in, err = gzip.NewReader(bufio.NewReader(file)); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
		}
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	v, err := parse(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if v.scenario != scenario || v.seed != f.seed {
		return nil, fmt.Errorf("%s holds scenario %s of seed %d", path, v.scenario, v.seed)
	}
	return v, nil
}

func parse(in io.Reader) (*vector, error) {
	v := &vector{}
	lines := json.NewDecoder(bufio.NewReader(in))
	lines.DisallowUnknownFields()
	for n := 1; ; n++ {
		var l line
		if err := lines.Decode(&l); err != nil {
			if errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("cut short: there is no last line after line %d", n-1)
			}
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := v.add(&l, n); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if !l.End {
			continue
		}
		if l.Inputs != len(v.input) || l.Outputs != len(v.output) {
			return nil, fmt.Errorf("cut short: %d steps and %d records of output, the last line says %d and %d",
				len(v.input), len(v.output), l.Inputs, l.Outputs)
		}
		if err := lines.Decode(&line{}); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("there is more after the last line, %d", n)
		}
		return v, nil
	}
}

func (v *vector) add(l *line, n int) error {
	if (n == 1) != (l.Scenario != "") {
		return errors.New("the first line, and no other, names the scenario")
	}
	last := len(v.input) - 1
	switch {
	case l.Scenario != "":
		if l.Format != format {
			return fmt.Errorf("format %d, this test reads %d", l.Format, format)
		}
		v.scenario, v.seed, v.application, v.wallMs = l.Scenario, l.Seed, l.Application, l.Wall
	case l.Describe != "":
		v.describe = l.Describe
	case l.Internal != "":
		t := internalTopic{name: l.Internal, partitions: l.Partitions, buffer: l.Buffer}
		if err := json.Unmarshal(l.Config, &t.configs); err != nil {
			return err
		}
		v.internal = append(v.internal, t)
	case l.In != "":
		r, err := l.record(l.In, last+1)
		if err != nil {
			return err
		}
		v.input = append(v.input, step{record: r})
	case l.Advance > 0:
		v.input = append(v.input, step{advanceMs: l.Advance})
	case l.Out != "":
		r, err := l.record(l.Out, last)
		if err != nil {
			return err
		}
		v.output = append(v.output, r)
	case l.Offset != "":
		v.progress = append(v.progress, progress{step: last, topic: l.Offset, timeMs: l.Time, entries: l.Entries})
	case l.Fails != "":
		v.failure = l.Fails + ": " + l.Message
	case l.End:
	default:
		return errors.New("a line of no known kind")
	}
	return nil
}

func (l *line) record(topic string, step int) (record, error) {
	r := record{topic: topic, tsMs: l.TsMs, step: step}
	var err error
	if r.key, err = fromHex(l.Key); err != nil {
		return r, err
	}
	if r.value, err = fromHex(l.Value); err != nil {
		return r, err
	}
	for _, h := range l.Headers {
		if h[0] == nil {
			return r, errors.New("a header without a name")
		}
		value, err := fromHex(h[1])
		if err != nil {
			return r, err
		}
		r.headers = append(r.headers, serde.Header{Key: *h[0], Value: value})
	}
	return r, nil
}

func fromHex(text *string) ([]byte, error) {
	if text == nil {
		return nil, nil
	}
	b, err := hex.DecodeString(*text)
	if err != nil {
		return nil, err
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}
