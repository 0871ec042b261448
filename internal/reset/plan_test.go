package reset

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/internal/broker"
)

func tp(topic string, partition int32) broker.TopicPartition {
	return broker.TopicPartition{Topic: topic, Partition: partition}
}

func topic(name string, partitions int32) broker.TopicInfo {
	return broker.TopicInfo{Name: name, Partitions: partitions, Exists: true}
}

// view is an application "app" that has read two topics and has internal ones.
func view() View {
	return View{
		Group:  broker.GroupDetail{Type: broker.GroupClassic, State: "Empty"},
		Groups: []broker.GroupListing{{Name: "app", Type: broker.GroupClassic, State: "Empty"}},
		Topics: []broker.TopicInfo{topic("app-counts-changelog", 2), topic("app-counts-repartition", 2), topic("app-results", 1), topic("clicks", 2),
			topic("other-counts-changelog", 1), topic("users", 1)},
		Committed: map[broker.TopicPartition]broker.OffsetMeta{
			tp("clicks", 0): {Offset: 70, Epoch: -1, Metadata: "m"}, tp("clicks", 1): {Offset: 20, Epoch: -1}, tp("users", 0): {Offset: 5, Epoch: -1},
			tp("app-counts-repartition", 1): {Offset: 9, Epoch: -1},
		},
		Starts: map[broker.TopicPartition]int64{tp("clicks", 0): 10, tp("clicks", 1): 0, tp("users", 0): 0},
		Ends:   map[broker.TopicPartition]int64{tp("clicks", 0): 100, tp("clicks", 1): 30, tp("users", 0): 5},
	}
}

func make1(t *testing.T, s Spec, v View) Plan {
	t.Helper()
	s.ApplicationID = "app"
	p, err := Make(s, v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMake_theBeginningOfTheInputsAndAllInternalTopics(t *testing.T) {
	p := make1(t, Spec{Inputs: []string{"clicks", "clicks"}}, view())
	want := Plan{
		ApplicationID: "app", Group: view().Group,
		Offsets: []Move{
			{TopicPartition: tp("clicks", 0), From: 70, To: 10},
			{TopicPartition: tp("clicks", 1), From: 20, To: 0},
		},
		Topics:       []string{"app-counts-changelog", "app-counts-repartition"},
		Forget:       []broker.TopicPartition{tp("app-counts-repartition", 1)},
		OtherOffsets: []string{"users"},
		Proof: map[broker.TopicPartition]broker.OffsetMeta{
			tp("clicks", 0): {Offset: 70, Epoch: -1, Metadata: "m"}, tp("clicks", 1): {Offset: 20, Epoch: -1},
		},
	}
	if d := cmp.Diff(want, p); d != "" {
		t.Errorf("plan (-want +got):\n%s", d)
	}
}

func TestMake_provesByAnyOffsetThatStays(t *testing.T) {
	p := make1(t, Spec{}, view())
	if d := cmp.Diff(map[broker.TopicPartition]broker.OffsetMeta{tp("clicks", 0): {Offset: 70, Epoch: -1, Metadata: "m"}}, p.Proof); d != "" {
		t.Errorf("proof (-want +got):\n%s", d)
	}
	v := view()
	v.Committed = map[broker.TopicPartition]broker.OffsetMeta{tp("app-counts-repartition", 1): {Offset: 9}}
	if p := make1(t, Spec{}, v); len(p.Proof) > 0 {
		t.Errorf("an offset that goes is committed again: %v", p.Proof)
	}
}

// What a target gives for clicks-0 (10 to 100, committed 70), clicks-1 (0 to 30, committed 20).
func TestMake_targets(t *testing.T) {
	for name, c := range map[string]struct {
		to    Target
		want  [2]int64
		notes [2]string
	}{
		"earliest":           {Target{}, [2]int64{10, 0}, [2]string{}},
		"latest":             {Target{Kind: ToLatest}, [2]int64{100, 30}, [2]string{}},
		"offset":             {Target{Kind: ToOffset, Offset: 25}, [2]int64{25, 25}, [2]string{}},
		"offset below":       {Target{Kind: ToOffset, Offset: 3}, [2]int64{10, 3}, [2]string{"offset 3 is below"}},
		"offset beyond":      {Target{Kind: ToOffset, Offset: 31}, [2]int64{31, 30}, [2]string{"", "offset 31 is beyond"}},
		"the end is no gap":  {Target{Kind: ToOffset, Offset: 30}, [2]int64{30, 30}, [2]string{}},
		"shift on":           {Target{Kind: ShiftBy, Offset: 5}, [2]int64{75, 25}, [2]string{}},
		"shift back":         {Target{Kind: ShiftBy, Offset: -19}, [2]int64{51, 1}, [2]string{}},
		"shift out of both":  {Target{Kind: ShiftBy, Offset: math.MinInt64}, [2]int64{10, 0}, [2]string{"below the first", "below the first"}},
		"shift far beyond":   {Target{Kind: ShiftBy, Offset: math.MaxInt64}, [2]int64{100, 30}, [2]string{"beyond the end", "beyond the end"}},
		"time":               {Target{Kind: ToTime, TimeMs: 1}, [2]int64{40, 30}, [2]string{"", "no record is that late"}},
		"file":               {Target{Kind: FromFile, File: map[broker.TopicPartition]int64{tp("clicks", 0): 99, tp("clicks", 1): 2}}, [2]int64{99, 2}, [2]string{}},
		"file out of range":  {Target{Kind: FromFile, File: map[broker.TopicPartition]int64{tp("clicks", 0): 1, tp("clicks", 1): 200}}, [2]int64{10, 30}, [2]string{"offset 1 is below", "offset 200 is beyond"}},
		"file with zero too": {Target{Kind: FromFile, File: map[broker.TopicPartition]int64{tp("clicks", 0): 11, tp("clicks", 1): 0}}, [2]int64{11, 0}, [2]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			v := view()
			v.At = map[broker.TopicPartition]int64{tp("clicks", 0): 40, tp("clicks", 1): 30}
			p := make1(t, Spec{Inputs: []string{"clicks"}, To: c.to}, v)
			for i, m := range p.Offsets {
				if m.To != c.want[i] || c.notes[i] == "" && m.Note != "" || !strings.Contains(m.Note, c.notes[i]) {
					t.Errorf("%s-%d goes to %d (%q), want %d (%q)", m.Topic, m.Partition, m.To, m.Note, c.want[i], c.notes[i])
				}
			}
		})
	}
}

func TestMake_aShiftWithoutAnOffsetCountsFromTheEnd(t *testing.T) {
	v := view()
	delete(v.Committed, tp("clicks", 1))
	p := make1(t, Spec{Inputs: []string{"clicks"}, To: Target{Kind: ShiftBy, Offset: -4}}, v)
	if m := p.Offsets[1]; m.From != -1 || m.To != 26 || !strings.Contains(m.Note, "no offset is committed") {
		t.Errorf("%+v", m)
	}
}

func TestMake_intermediateTopicsGoToTheEndAndStay(t *testing.T) {
	v := view()
	v.Topics = append(v.Topics, topic("app-own-repartition", 1))
	v.Starts[tp("app-own-repartition", 0)], v.Ends[tp("app-own-repartition", 0)] = 0, 8
	p := make1(t, Spec{Inputs: []string{"users"}, Intermediate: []string{"app-own-repartition"}, To: Target{Kind: ToOffset, Offset: 2}}, v)
	want := []Move{{TopicPartition: tp("app-own-repartition", 0), From: -1, To: 8}, {TopicPartition: tp("users", 0), From: 5, To: 2}}
	if d := cmp.Diff(want, p.Offsets); d != "" {
		t.Errorf("offsets (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"app-counts-changelog", "app-counts-repartition"}, p.Topics); d != "" {
		t.Errorf("topics (-want +got):\n%s", d)
	}
}

// An input may have the name of an internal topic, such as the topic of a read-only store.
func TestMake_anInputIsNeverDeleted(t *testing.T) {
	v := view()
	v.Starts[tp("app-counts-changelog", 0)], v.Ends[tp("app-counts-changelog", 0)] = 0, 1
	p := make1(t, Spec{Inputs: []string{"app-counts-changelog"}}, v)
	if d := cmp.Diff([]string{"app-counts-repartition"}, p.Topics); d != "" {
		t.Errorf("topics (-want +got):\n%s", d)
	}
}

func TestMake_someInternalTopics(t *testing.T) {
	p := make1(t, Spec{Internal: []string{"app-counts-changelog"}}, view())
	if d := cmp.Diff([]string{"app-counts-changelog"}, p.Topics); d != "" {
		t.Errorf("topics (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"app-counts-repartition"}, p.Kept); d != "" {
		t.Errorf("kept (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"app-counts-repartition", "clicks", "users"}, p.OtherOffsets); d != "" {
		t.Errorf("other offsets (-want +got):\n%s", d)
	}
	if p := make1(t, Spec{Internal: []string{}}, view()); len(p.Topics) != 0 || len(p.Kept) != 2 {
		t.Errorf("none of them: deletes %q, keeps %q", p.Topics, p.Kept)
	}
}

// What is read again into a store that stays is counted twice.
func TestMake_warnsOfChangelogsThatStay(t *testing.T) {
	some := []string{"app-counts-repartition"}
	p := make1(t, Spec{Inputs: []string{"clicks"}, Internal: some}, view())
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "app-counts-changelog stay") || !strings.Contains(p.Warnings[0], "count it twice") {
		t.Errorf("offsets go back: warnings %q", p.Warnings)
	}
	other := view()
	other.Groups = append(other.Groups, broker.GroupListing{Name: "app-x"})
	other.Topics = append(other.Topics, topic("app-x-counts-changelog", 1))
	for name, p := range map[string]Plan{
		"offsets go on":          make1(t, Spec{Inputs: []string{"clicks"}, Internal: some, To: Target{Kind: ToLatest}}, view()),
		"all changelogs go":      make1(t, Spec{Inputs: []string{"clicks"}, Internal: []string{"app-counts-changelog"}}, view()),
		"another's changelog":    make1(t, Spec{Inputs: []string{"clicks"}, Internal: []string{"app-counts-changelog"}}, other),
		"all internal topics go": make1(t, Spec{Inputs: []string{"clicks"}}, view()),
	} {
		if len(p.Warnings) > 0 {
			t.Errorf("%s: warnings %q", name, p.Warnings)
		}
	}
}

func TestMake_warnsOfNames(t *testing.T) {
	for name, c := range map[string]struct {
		s    Spec
		v    View
		want string // empty: no warning
	}{
		"an output":         {Spec{Inputs: []string{"app-results", "clicks"}}, view(), "no offset of app-results, but offsets of clicks, users;"},
		"nothing":           {Spec{}, View{Topics: []broker.TopicInfo{topic("clicks", 1)}}, "nothing of application app was found"},
		"a group alone":     {Spec{}, View{Group: view().Group}, ""},
		"topics alone":      {Spec{Internal: []string{}}, View{Topics: view().Topics}, ""},
		"its inputs":        {Spec{Inputs: []string{"clicks", "users"}}, view(), ""},
		"no offsets at all": {Spec{Inputs: []string{"clicks"}}, View{Group: view().Group, Topics: view().Topics}, ""},
	} {
		p := make1(t, c.s, c.v)
		if c.want == "" && len(p.Warnings) > 0 || c.want != "" && (len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], c.want)) {
			t.Errorf("%s: warnings %q, want %q", name, p.Warnings, c.want)
		}
	}
}

func TestMake_refuses(t *testing.T) {
	other := view()
	other.Groups = append(other.Groups, broker.GroupListing{Name: "app-counts"})
	other.Topics = append(other.Topics, topic("app-counts-x-changelog", 1))
	consumers := view()
	consumers.Group.Type = broker.GroupConsumer
	for name, c := range map[string]struct {
		s    Spec
		v    View
		want []string
	}{
		"no such topic":            {Spec{Inputs: []string{"clicks", "klicks", "usres"}}, view(), []string{"klicks, usres", "check the spelling"}},
		"no such intermediate":     {Spec{Intermediate: []string{"usres"}}, view(), []string{"usres"}},
		"not internal":             {Spec{Internal: []string{"app-results", "other-counts-changelog"}}, view(), []string{"app-results, other-counts-changelog", "these are: app-counts-"}},
		"a misspelt one":           {Spec{Inputs: []string{"clicks"}, Internal: []string{"app-count-repartition"}}, view(), []string{"no internal topic app-count-repartition of", "these are: app-counts-repartition, app-counts-changelog;"}},
		"one that is gone":         {Spec{Internal: []string{"app-counts-changelog", "app-gone-changelog"}}, view(), []string{"no internal topic app-gone-changelog of", "an earlier run"}},
		"both input and internal":  {Spec{Inputs: []string{"users"}, Intermediate: []string{"app-counts-changelog"}, Internal: []string{"app-counts-changelog"}}, view(), []string{"app-counts-changelog"}},
		"topics of another group":  {Spec{}, other, []string{"app-counts-x-changelog (of app-counts?)", "--internal-topics"}},
		"a group of consumers":     {Spec{Force: true}, consumers, []string{"type consumer"}},
		"file with another topic":  {Spec{Inputs: []string{"users"}, To: Target{Kind: FromFile, File: map[broker.TopicPartition]int64{tp("users", 0): 1, tp("clicks", 0): 1}}}, view(), []string{"clicks-0", "--input-topics"}},
		"file without a partition": {Spec{Inputs: []string{"clicks"}, To: Target{Kind: FromFile, File: map[broker.TopicPartition]int64{tp("clicks", 0): 1}}}, view(), []string{"no line for clicks-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.s.ApplicationID = "app"
			_, err := Make(c.s, c.v)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range append(c.want, "millrace: reset: ") {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error does not say %q: %v", w, err)
				}
			}
		})
	}
}

func TestMake_members(t *testing.T) {
	v := view()
	v.Group.State = "Stable"
	v.Group.Members = []broker.MemberInfo{{MemberID: "m-1", InstanceID: "one", ClientID: "app-consumer", Host: "/10.0.0.1"}}
	p := make1(t, Spec{}, v)
	for _, w := range []string{"instance id one", "m-1", "app-consumer", "/10.0.0.1", "--force"} {
		if !errors.Is(p.Blocked, ErrActive) || !strings.Contains(p.Blocked.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, p.Blocked)
		}
	}
	if len(p.Topics) != 2 {
		t.Errorf("a plan that is refused does not show what it is about: %+v", p)
	}
	p = make1(t, Spec{Force: true}, v)
	if d := cmp.Diff(v.Group.Members, p.Evict); d != "" || p.Blocked != nil {
		t.Errorf("by force: %v, members (-want +got):\n%s", p.Blocked, d)
	}
	v.Group.Type = broker.GroupStreams
	if p = make1(t, Spec{Force: true}, v); !errors.Is(p.Blocked, ErrActive) || len(p.Evict) > 0 || !strings.Contains(p.Blocked.Error(), "type streams") {
		t.Errorf("a streams group by force: %v, evicts %v", p.Blocked, p.Evict)
	}
}

func TestInternal(t *testing.T) {
	for name, want := range map[string]bool{
		"app-counts-changelog": true,
		"app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog":        true,
		"app-counts-repartition":                                        true,
		"app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic": true,
		"app-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000014-topic":     true,
		"app-prices-subscription-registration-topic":                    true,
		"app-prices-subscription-response-topic":                        true,
		"app-changelog":                                                 false,
		"app--changelog":                                                false, // no store has an empty name
		"app-results":                                                   false,
		"app-counts-changelog-2":                                        false,
		"app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-x-topic":          false,
		"application-counts-changelog":                                  false,
		"apps":                                                          false,
		"my-app-counts-changelog":                                       false,
		"app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic-changelog": true,
	} {
		if got := Internal("app", name); got != want {
			t.Errorf("Internal(%q) = %v", name, got)
		}
	}
}

func TestParseFile(t *testing.T) {
	got, err := ParseFile(strings.NewReader("clicks,0,12\n\n \"clicks\" , 1 , 0 \r\nusers,0,9223372036854775807"))
	want := map[broker.TopicPartition]int64{tp("clicks", 0): 12, tp("clicks", 1): 0, tp("users", 0): math.MaxInt64}
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"": "no line", "a,0": "line 1", "a,0,1\na,-1,1": `"-1" is no partition`, "a,0,-1": `"-1" is no offset`, "a,0,1\na,0,2": "a-0 is there twice",
		"a,0,1,2": "line 1", ",0,1": "line 1", "a,2147483648,1": "no partition", "a,0,9223372036854775808": "no offset",
	} {
		if _, err := ParseFile(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	const want = 1793521800000 // 2026-11-01T08:30:00Z
	for text, ms := range map[string]int64{
		"2026-11-01T08:30:00.000": want, "2026-11-01T08:30:00": want, "2026-11-01T08:30": want, "2026-11-01T08:30:00.250Z": want + 250,
		"2026-11-01T09:30:00.000+01:00": want, "2026-11-01T09:30:00.000+0100": want, "2026-11-01T00:30:00.000-08": want, "1970-01-01T00:00:00.000": 0,
	} {
		if got, err := ParseTime(text); err != nil || got.UnixMilli() != ms {
			t.Errorf("%s is %d, %v; want %d", text, got.UnixMilli(), err, ms)
		}
	}
	for _, text := range []string{"", "2026-11-01", "yesterday", "2026-13-01T00:00:00.000", "1793521800000"} {
		if _, err := ParseTime(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestParseSpan(t *testing.T) {
	for text, seconds := range map[string]float64{"PT1H30M": 5400, "P2D": 172800, "90m": 5400, "pt0.5s": 0.5, "PT0S": 0} {
		if got, err := ParseSpan(text); err != nil || got.Seconds() != seconds {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "P", "-PT1H", "-1h", "2 days"} {
		if _, err := ParseSpan(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
