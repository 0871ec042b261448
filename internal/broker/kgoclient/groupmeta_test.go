package kgoclient

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/internal/assign"
	"github.com/millrace-io/millrace/internal/broker"
)

func genTaskIDs(t *rapid.T, name string) []broker.TaskID {
	ids := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) broker.TaskID {
		return broker.TaskID{Subtopology: rapid.IntRange(0, 3).Draw(t, "sub"), Partition: rapid.Int32Range(0, 1000).Draw(t, "partition")}
	}), func(id broker.TaskID) broker.TaskID { return id }).Draw(t, name)
	broker.SortTasks(ids)
	if len(ids) == 0 {
		return nil
	}
	return ids
}

func TestGroupData_roundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := memberData{
			ProcessID: uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "process")), Signature: rapid.String().Draw(t, "signature"),
			Generation: rapid.Int32Min(-1).Draw(t, "generation"), Owned: genTaskIDs(t, "owned"), Stored: genTaskIDs(t, "stored"),
			Nonce: rapid.Uint64().Draw(t, "nonce"), Refused: genTaskIDs(t, "refused"), Transactional: rapid.String().Draw(t, "transactional"),
			Standbys: genTaskIDs(t, "standbys"), Rack: rapid.String().Draw(t, "rack"), StopAll: rapid.String().Draw(t, "stop all"),
		}
		if tags := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "tags"); len(tags) > 0 {
			m.Tags = tags
		}
		for _, id := range genTaskIDs(t, "known") {
			if m.Positions == nil {
				m.Positions = make(map[broker.TaskID]int64)
			}
			m.Positions[id] = rapid.Int64().Draw(t, "position")
		}
		got, err := decodeMemberData(m.encode())
		if d := cmp.Diff(m, got); d != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, d)
		}
		a := assignmentData{
			Status: assignmentStatus(rapid.IntRange(0, 2).Draw(t, "status")), Signature: m.Signature, Leader: rapid.String().Draw(t, "leader"),
			Tasks: genTaskIDs(t, "tasks"), GiveUp: genTaskIDs(t, "give up"), Refused: genTaskIDs(t, "not run"), Writers: rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "writers"),
			LeaderTopics: rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "topics"), LeaderShape: rapid.String().Draw(t, "shape"),
			Standbys: genTaskIDs(t, "copies"), Warmups: genTaskIDs(t, "warm-ups"), StopAll: rapid.String().Draw(t, "stopped"), AllKnow: rapid.Bool().Draw(t, "all know"),
		}
		gotA, err := decodeAssignmentData(a.encode())
		if d := cmp.Diff(a, gotA); d != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, d)
		}
		// Whatever is cut off or appended never gets past as something else.
		b := m.encode()
		if _, err := decodeMemberData(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]); err == nil {
			t.Fatal("cut off data was read")
		}
	})
}

// The bytes of docs/format/group-metadata.md.
func TestGroupData_bytes(t *testing.T) {
	m := memberData{
		ProcessID: uuid.MustParse("00010203-0405-0607-0809-0a0b0c0d0e0f"), Signature: "ab", Generation: 5,
		Owned: []broker.TaskID{{Subtopology: 1, Partition: 300}, {Subtopology: 0, Partition: 2}, {Subtopology: 0, Partition: 0}}, Nonce: 7,
	}
	if got, want := hex.EncodeToString(m.encode()), "01"+"000102030405060708090a0b0c0d0e0f"+"026162"+"0a"+"02"+"00020002"+"0101ac02"+"00"+"07"+"00"; got != want {
		t.Errorf("member %s, want %s", got, want)
	}
	a := assignmentData{Signature: "ab", Leader: "m", Tasks: []broker.TaskID{{Partition: 2}}, GiveUp: []broker.TaskID{{Partition: 3}}}
	if got, want := hex.EncodeToString(a.encode()), "01"+"00"+"026162"+"016d"+"01000102"+"01"+"01"+"04"+"01000103"; got != want {
		t.Errorf("assignment %s, want %s", got, want)
	}
}

func TestGroupData_unknownFieldsAreSkippedAndVersionsAreNot(t *testing.T) {
	a := assignmentData{Signature: "s", Tasks: []broker.TaskID{{Partition: 1}}}
	b := a.encode()
	b[len(b)-1] = 1                     // one tagged field more
	b = append(b, 99, 3, 'x', 'y', 'z') // of a tag to come
	if got, err := decodeAssignmentData(b); err != nil || len(got.Tasks) != 1 {
		t.Errorf("with a field to come: %+v, %v", got, err)
	}
	b[0] = 2
	if _, err := decodeAssignmentData(b); err == nil {
		t.Error("a version to come was read")
	}
}

func FuzzGroupData(f *testing.F) {
	f.Add(memberData{Signature: "s", Owned: []broker.TaskID{{Partition: 1}}}.encode())
	f.Add(assignmentData{Signature: "s", LeaderTopics: []string{"t"}}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeMemberData(b); err == nil {
			if _, err := decodeMemberData(m.encode()); err != nil {
				t.Errorf("%+v: %v", m, err)
			}
		}
		if a, err := decodeAssignmentData(b); err == nil {
			if _, err := decodeAssignmentData(a.encode()); err != nil {
				t.Errorf("%+v: %v", a, err)
			}
		}
	})
}

func joined(id string, topics []string, d memberData) kmsg.JoinGroupResponseMember {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics, meta.UserData = topics, d.encode()
	m := kmsg.NewJoinGroupResponseMember()
	m.MemberID, m.ProtocolMetadata = id, meta.AppendTo(nil)
	return m
}

func balance(t *testing.T, topology broker.GroupTopology, partitions map[string]int32, members ...kmsg.JoinGroupResponseMember) map[string]assignmentData {
	t.Helper()
	g := &groupBalance{assign: assign.Round, topology: topology, leader: "leader", members: members}
	out := make(map[string]assignmentData)
	for _, sa := range g.Balance(partitions).IntoSyncAssignment() {
		var a kmsg.ConsumerMemberAssignment
		if err := a.ReadFrom(sa.MemberAssignment); err != nil {
			t.Fatal(err)
		}
		d, err := decodeAssignmentData(a.UserData)
		if err != nil {
			t.Fatal(err)
		}
		out[sa.MemberID] = d
		// The partitions stand there for tools, and are those of the tasks.
		in := inputsOf(topology, d.Tasks, &a)
		n := 0
		for _, at := range a.Topics {
			n += len(at.Partitions)
		}
		for _, task := range d.Tasks {
			if len(in[task]) == 0 {
				t.Errorf("%v of %s reads nothing", task, sa.MemberID)
			}
			n -= len(in[task])
		}
		if n != 0 {
			t.Errorf("%d partitions of %s belong to no task", n, sa.MemberID)
		}
	}
	return out
}

func TestBalance_membersThatCannotTakePartGetAReason(t *testing.T) {
	topology := reads("s", []string{"in"})
	bad := kmsg.NewJoinGroupResponseMember()
	bad.MemberID, bad.ProtocolMetadata = "bad", []byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 9, 9}
	got := balance(t, topology, map[string]int32{"in": 2},
		joined("a", []string{"in"}, memberData{Signature: "s", Generation: -1}),
		joined("b", []string{"in", "more"}, memberData{Signature: "other", Generation: -1}),
		bad,
	)
	if d := got["a"]; d.Status != statusOK || len(d.Tasks) != 2 || d.Leader != "leader" {
		t.Errorf("a: %+v", d)
	}
	if d := got["b"]; d.Status != statusMismatch || len(d.Tasks) != 0 || !cmp.Equal(d.LeaderTopics, []string{"in"}) {
		t.Errorf("b: %+v", d)
	}
	if d := got["bad"]; d.Status != statusUnreadable || len(d.Tasks) != 0 {
		t.Errorf("bad: %+v", d)
	}
}

func TestBalance_topicsWithoutPartitionsMakeNoTasks(t *testing.T) {
	got := balance(t, reads("s", []string{"in", "missing"}, []string{"missing"}), map[string]int32{"in": 2, "missing": 0},
		joined("a", []string{"in", "missing"}, memberData{Signature: "s", Generation: -1}))
	if d := cmp.Diff([]broker.TaskID{{Partition: 0}, {Partition: 1}}, got["a"].Tasks); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestBalance_movesInTwoSteps(t *testing.T) {
	topology := reads("s", []string{"in"})
	all := []broker.TaskID{{Partition: 0}, {Partition: 1}, {Partition: 2}, {Partition: 3}}
	partitions := map[string]int32{"in": 4}
	got := balance(t, topology, partitions,
		joined("a", []string{"in"}, memberData{Signature: "s", Generation: 3, Owned: all}),
		joined("b", []string{"in"}, memberData{Signature: "s", Generation: -1, Owned: all})) // what it says without a generation counts for nothing
	if len(got["a"].Tasks) != 2 || len(got["a"].GiveUp) != 2 || len(got["b"].Tasks) != 0 || len(got["b"].GiveUp) != 0 {
		t.Fatalf("first step: %+v", got)
	}
	moved := got["a"].GiveUp
	got = balance(t, topology, partitions,
		joined("a", []string{"in"}, memberData{Signature: "s", Generation: 4, Owned: got["a"].Tasks, Stored: all}),
		joined("b", []string{"in"}, memberData{Signature: "s", Generation: 4}))
	if d := cmp.Diff(moved, got["b"].Tasks); d != "" || len(got["a"].GiveUp) != 0 {
		t.Fatalf("second step: %+v", got)
	}
}
