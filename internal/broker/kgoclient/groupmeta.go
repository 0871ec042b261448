package kgoclient

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/broker"
)

// The user data of a group's members, drawn in docs/format/group-metadata.md. A version is raised only for a change that
// an older member would misread; what may be ignored is added as a tagged field.

// protocolName is the assignor's name in the group's protocol list.
const protocolName = "millrace"

const metadataVersion = 1

// memberData is what a member tells the leader when it joins.
type memberData struct {
	ProcessID  uuid.UUID
	Signature  string
	Generation int32 // in which Owned was assigned, -1 if nothing is owned
	Owned      []broker.TaskID
	Stored     []broker.TaskID
	Nonce      uint64
	Refused    []broker.TaskID
	// Transactional is the transactional id under which the member writes, empty if it has none.
	Transactional string
	Standbys      []broker.TaskID
	Positions     map[broker.TaskID]int64 // nil if none is known
	Rack          string
	Tags          map[string]string // nil if there are none
	// StopAll, if set, asks for the end of all members: it says who asks and why.
	StopAll string
}

// assignmentStatus is why a member got its tasks or got none.
type assignmentStatus uint64

const (
	statusOK         assignmentStatus = iota
	statusMismatch                    // the member's topology is not the leader's
	statusUnreadable                  // the leader could not read the member's data
)

// assignmentData is what the leader tells a member.
type assignmentData struct {
	Status       assignmentStatus
	Signature    string // of the leader's topology
	Leader       string // the leader's member id
	Tasks        []broker.TaskID
	LeaderTopics []string // with statusMismatch: what the leader reads
	LeaderShape  string   // with statusMismatch: the shape of its topology
	// GiveUp are tasks that the member holds and others wait for. It joins again when it has given them up, and also if
	// it does not hold them any more (a static member that was restarted in between).
	GiveUp []broker.TaskID
	// Refused are the tasks that the member refused when this was made. It joins again if it takes them now.
	Refused []broker.TaskID
	// Writers are the transactional ids of all members of the round. Who leads the next one sees from them who is gone.
	Writers []string
	// Standbys and Warmups are the copies that the member is to keep or to make.
	Standbys, Warmups []broker.TaskID
	// StopAll, if set, tells the member to stop: it says who has asked for that and why. AllKnow says that all members of the round
	// knew it when they joined.
	StopAll string
	AllKnow bool
}

// Tags of the fields of an assignment.
const (
	tagLeaderTopics = 0
	tagGiveUp       = 1
	tagNotRun       = 2
	tagWriters      = 3
	tagCopies       = 4
	tagWarmups      = 5
	tagLeaderShape  = 6
	tagStopped      = 7
	tagAllKnow      = 8
)

// Tags of the fields of a member's data.
const (
	tagRefused       = 0
	tagTransactional = 1
	tagStandbys      = 2
	tagPositions     = 3
	tagRack          = 4
	tagTags          = 5
	tagStopAll       = 6
)

func (d memberData) encode() []byte {
	b := binary.AppendUvarint(nil, metadataVersion)
	b = append(b, d.ProcessID[:]...)
	b = appendString(b, d.Signature)
	b = binary.AppendVarint(b, int64(d.Generation))
	b = appendTasks(b, d.Owned)
	b = appendTasks(b, d.Stored)
	b = binary.AppendUvarint(b, d.Nonce)
	var fields [][]byte
	if len(d.Refused) > 0 {
		fields = append(fields, appendField(tagRefused, appendTasks(nil, d.Refused)))
	}
	if d.Transactional != "" {
		fields = append(fields, appendField(tagTransactional, []byte(d.Transactional)))
	}
	if len(d.Standbys) > 0 {
		fields = append(fields, appendField(tagStandbys, appendTasks(nil, d.Standbys)))
	}
	if len(d.Positions) > 0 {
		fields = append(fields, appendField(tagPositions, appendPositions(nil, d.Positions)))
	}
	if d.Rack != "" {
		fields = append(fields, appendField(tagRack, []byte(d.Rack)))
	}
	if len(d.Tags) > 0 {
		fields = append(fields, appendField(tagTags, appendTags(nil, d.Tags)))
	}
	if d.StopAll != "" {
		fields = append(fields, appendField(tagStopAll, []byte(d.StopAll)))
	}
	return appendFields(b, fields)
}

func decodeMemberData(b []byte) (d memberData, err error) {
	r := metaReader{in: b}
	r.version()
	copy(d.ProcessID[:], r.bytes(16))
	d.Signature = r.string()
	d.Generation = int32(r.varint())
	d.Owned = r.tasks()
	d.Stored = r.tasks()
	d.Nonce = r.uvarint()
	r.tagged(func(tag uint64, f *metaReader) {
		switch tag {
		case tagRefused:
			d.Refused = f.tasks()
		case tagTransactional:
			d.Transactional = string(f.in)
		case tagStandbys:
			d.Standbys = f.tasks()
		case tagPositions:
			d.Positions = f.positions()
		case tagRack:
			d.Rack = string(f.in)
		case tagTags:
			d.Tags = f.tags()
		case tagStopAll:
			d.StopAll = string(f.in)
		}
	})
	return d, r.done("group member")
}

func (d assignmentData) encode() []byte {
	b := binary.AppendUvarint(nil, metadataVersion)
	b = binary.AppendUvarint(b, uint64(d.Status))
	b = appendString(b, d.Signature)
	b = appendString(b, d.Leader)
	b = appendTasks(b, d.Tasks)
	var fields [][]byte
	if len(d.LeaderTopics) > 0 {
		fields = append(fields, appendField(tagLeaderTopics, appendStrings(nil, d.LeaderTopics)))
	}
	if len(d.GiveUp) > 0 {
		fields = append(fields, appendField(tagGiveUp, appendTasks(nil, d.GiveUp)))
	}
	if len(d.Refused) > 0 {
		fields = append(fields, appendField(tagNotRun, appendTasks(nil, d.Refused)))
	}
	if len(d.Writers) > 0 {
		fields = append(fields, appendField(tagWriters, appendStrings(nil, d.Writers)))
	}
	if len(d.Standbys) > 0 {
		fields = append(fields, appendField(tagCopies, appendTasks(nil, d.Standbys)))
	}
	if len(d.Warmups) > 0 {
		fields = append(fields, appendField(tagWarmups, appendTasks(nil, d.Warmups)))
	}
	if d.LeaderShape != "" {
		fields = append(fields, appendField(tagLeaderShape, []byte(d.LeaderShape)))
	}
	if d.StopAll != "" {
		fields = append(fields, appendField(tagStopped, []byte(d.StopAll)))
	}
	if d.AllKnow {
		fields = append(fields, appendField(tagAllKnow, nil))
	}
	return appendFields(b, fields)
}

func appendFields(b []byte, fields [][]byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(fields)))
	return append(b, bytes.Join(fields, nil)...)
}

func appendField(tag uint64, content []byte) []byte {
	return appendString(binary.AppendUvarint(nil, tag), string(content))
}

func decodeAssignmentData(b []byte) (d assignmentData, err error) {
	r := metaReader{in: b}
	r.version()
	d.Status = assignmentStatus(r.uvarint())
	d.Signature = r.string()
	d.Leader = r.string()
	d.Tasks = r.tasks()
	r.tagged(func(tag uint64, f *metaReader) {
		switch tag {
		case tagLeaderTopics:
			d.LeaderTopics = f.strings()
		case tagGiveUp:
			d.GiveUp = f.tasks()
		case tagNotRun:
			d.Refused = f.tasks()
		case tagWriters:
			d.Writers = f.strings()
		case tagCopies:
			d.Standbys = f.tasks()
		case tagWarmups:
			d.Warmups = f.tasks()
		case tagLeaderShape:
			d.LeaderShape = string(f.in)
		case tagStopped:
			d.StopAll = string(f.in)
		case tagAllKnow:
			d.AllKnow = true
		}
	})
	return d, r.done("group assignment")
}

func appendStrings(b []byte, all []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, s := range all {
		b = appendString(b, s)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendTasks writes tasks by sub-topology, sorted: the same tasks give the same bytes.
func appendTasks(b []byte, tasks []broker.TaskID) []byte {
	sorted := slices.Clone(tasks)
	broker.SortTasks(sorted)
	sorted = slices.Compact(sorted)
	groups := 0
	for i, t := range sorted {
		if i == 0 || t.Subtopology != sorted[i-1].Subtopology {
			groups++
		}
	}
	b = binary.AppendUvarint(b, uint64(groups))
	for i := 0; i < len(sorted); {
		n := i
		for n < len(sorted) && sorted[n].Subtopology == sorted[i].Subtopology {
			n++
		}
		b = binary.AppendUvarint(b, uint64(sorted[i].Subtopology))
		b = binary.AppendUvarint(b, uint64(n-i))
		for ; i < n; i++ {
			b = binary.AppendUvarint(b, uint64(sorted[i].Partition))
		}
	}
	return b
}

// appendPositions writes the tasks and then, in the same order, how far each one is.
func appendPositions(b []byte, at map[broker.TaskID]int64) []byte {
	tasks := slices.Collect(maps.Keys(at))
	b = appendTasks(b, tasks)
	broker.SortTasks(tasks)
	for _, t := range tasks {
		b = binary.AppendVarint(b, at[t])
	}
	return b
}

func appendTags(b []byte, tags map[string]string) []byte {
	b = binary.AppendUvarint(b, uint64(len(tags)))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		b = appendString(appendString(b, k), tags[k])
	}
	return b
}

// metaReader reads user data; after the first fault it gives zeros.
type metaReader struct {
	in  []byte
	err error
}

var errShort = errors.New("it ends too early")

func (r *metaReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.in = nil
}

func (r *metaReader) version() {
	if v := r.uvarint(); r.err == nil && v != metadataVersion {
		r.fail(fmt.Errorf("version %d is not %d: upgrade the older instances", v, metadataVersion))
	}
}

func (r *metaReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.in)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.in = r.in[n:]
	return v
}

func (r *metaReader) varint() int64 {
	v, n := binary.Varint(r.in)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.in = r.in[n:]
	return v
}

func (r *metaReader) bytes(n int) []byte {
	if n > len(r.in) {
		r.fail(errShort)
		return nil
	}
	b := r.in[:n]
	r.in = r.in[n:]
	return b
}

// count reads a number of things that take at least so many bytes each.
func (r *metaReader) count(least int) int {
	n := r.uvarint()
	if n > uint64(len(r.in)/least) {
		r.fail(errShort)
		return 0
	}
	return int(n)
}

func (r *metaReader) string() string { return string(r.bytes(r.count(1))) }

func (r *metaReader) strings() (all []string) {
	for range r.count(1) {
		all = append(all, r.string())
	}
	return all
}

func (r *metaReader) tasks() []broker.TaskID {
	var out []broker.TaskID
	for range r.count(2) {
		sub := r.uvarint()
		for range r.count(1) {
			out = append(out, broker.TaskID{Subtopology: int(sub), Partition: int32(r.uvarint())})
		}
	}
	return out
}

func (r *metaReader) positions() map[broker.TaskID]int64 {
	out := make(map[broker.TaskID]int64)
	for _, t := range r.tasks() {
		out[t] = r.varint()
	}
	return out
}

func (r *metaReader) tags() map[string]string {
	out := make(map[string]string)
	for range r.count(2) {
		k := r.string()
		out[k] = r.string()
	}
	return out
}

// tagged reads the fields that a member may or may not know.
func (r *metaReader) tagged(field func(tag uint64, f *metaReader)) {
	for range r.count(2) {
		tag := r.uvarint()
		f := metaReader{in: r.bytes(r.count(1))}
		field(tag, &f)
		if f.err != nil {
			r.fail(f.err)
		}
	}
}

func (r *metaReader) done(what string) error {
	if r.err != nil {
		return fmt.Errorf("millrace: %s data cannot be read: %w", what, r.err)
	}
	return nil
}
