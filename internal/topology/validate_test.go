package topology

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// existingOf is a cluster in which all internal topics of a plan stand as planned.
func existingOf(p *Plan) map[string]ExistingTopic {
	existing := map[string]ExistingTopic{}
	for _, specs := range [][]TopicSpec{p.Repartitions, p.Changelogs} {
		for _, s := range specs {
			existing[s.Name] = ExistingTopic{Partitions: s.Partitions, Configs: maps.Clone(s.Configs)}
		}
	}
	return existing
}

func planOf(t *testing.T, name string, cluster map[string]int32) *Plan {
	t.Helper()
	p, err := buildGraph(t, name).Resolve("app", cluster, nil, DefaultResolveConfig())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func names(specs []TopicSpec) string {
	var list []string
	for _, s := range specs {
		list = append(list, s.Name)
	}
	return strings.Join(list, " ")
}

func TestValidateExisting(t *testing.T) {
	p := planOf(t, "c070-internal-topics", map[string]int32{"a": 3, "b": 2, "t": 2})
	create, warnings, err := p.ValidateExisting(nil)
	if err != nil || len(warnings) > 0 {
		t.Errorf("nothing exists: got %v, %v", warnings, err)
	}
	if got, want := names(create), "app-g-repartition app-gw-repartition app-gs-repartition app-five-repartition app-cnt-changelog app-wcnt-changelog app-scnt-changelog app-ver-changelog"; got != want {
		t.Errorf("to create: got %s, want %s", got, want)
	}
	create, warnings, err = p.ValidateExisting(existingOf(p))
	if err != nil || len(warnings) > 0 || len(create) > 0 {
		t.Errorf("all is as planned: got %v, %v, %v", create, warnings, err)
	}

	existing := existingOf(p)
	delete(existing, "app-gs-repartition")
	existing["app-five-repartition"] = ExistingTopic{Partitions: 4}
	existing["app-cnt-changelog"] = ExistingTopic{Partitions: 2}
	existing["app-wcnt-changelog"] = ExistingTopic{Partitions: 3} // settings unknown
	create, warnings, err = p.ValidateExisting(existing)
	if got := names(create); got != "app-gs-repartition" {
		t.Errorf("to create: got %s", got)
	}
	if len(warnings) > 0 {
		t.Errorf("got warnings %v", warnings)
	}
	const wayOut = "; if source topics were given more partitions, that changes which task a key belongs to: stop all instances and reset the application, which deletes its internal topics and state, or use another application id"
	want := `millrace: the repartition topic "app-five-repartition" exists with 4 partitions, but the topology needs 5 (which sub-topology 5 reads)` + wayOut + `
millrace: the changelog "app-cnt-changelog" exists with 2 partitions, but the topology needs 3 (one for each task of sub-topology 1, to which the store "cnt" belongs)` + wayOut
	if diff := cmp.Diff(want, text(err)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestValidateExistingWarns(t *testing.T) {
	p := planOf(t, "c070-internal-topics", map[string]int32{"a": 3, "b": 2, "t": 2})
	for _, tt := range []struct {
		topic, config, value string
		want                 string
	}{
		{"app-g-repartition", "cleanup.policy", "compact", `the internal topic "app-g-repartition" has cleanup.policy=compact, not delete: records of one key that have not been processed yet replace each other`},
		{"app-g-repartition", "retention.ms", "604800000", `the internal topic "app-g-repartition" has retention.ms=604800000, not -1 or more: records that are still needed are deleted`},
		{"app-g-repartition", "retention.bytes", "1000", `the internal topic "app-g-repartition" has retention.bytes=1000, not -1: records that are still needed are deleted when the topic grows`},
		{"app-g-repartition", "retention.bytes", "-1", ``},
		{"app-g-repartition", "segment.bytes", "1", ``},
		{"app-cnt-changelog", "cleanup.policy", "delete", `the internal topic "app-cnt-changelog" has cleanup.policy=delete, not compact: values that have not changed for long are deleted, and a restore misses them`},
		{"app-cnt-changelog", "cleanup.policy", "compact,delete", `the internal topic "app-cnt-changelog" has cleanup.policy=compact,delete, not compact: values that have not changed for long are deleted, and a restore misses them`},
		{"app-cnt-changelog", "message.timestamp.type", "LogAppendTime", `the internal topic "app-cnt-changelog" has message.timestamp.type=LogAppendTime, not CreateTime: the broker replaces the times of the records`},
		{"app-cnt-changelog", "retention.ms", "1", ``},
		{"app-wcnt-changelog", "cleanup.policy", "delete, compact", ``},
		{"app-wcnt-changelog", "cleanup.policy", "delete", `the internal topic "app-wcnt-changelog" has cleanup.policy=delete, not compact,delete: it keeps every change for as long as the store lives, and a restore reads them all`},
		{"app-wcnt-changelog", "cleanup.policy", "compact", `the internal topic "app-wcnt-changelog" has cleanup.policy=compact, not compact,delete: it keeps records for another time than planned`},
		{"app-wcnt-changelog", "retention.ms", "107999999", `the internal topic "app-wcnt-changelog" has retention.ms=107999999, not 108000000 or more: records that are still needed are deleted`},
		{"app-wcnt-changelog", "retention.ms", "108000001", ``},
		{"app-wcnt-changelog", "retention.ms", "-1", ``},
		{"app-ver-changelog", "min.compaction.lag.ms", "0", `the internal topic "app-ver-changelog" has min.compaction.lag.ms=0, not 93600000 or more: versions that the store still has are compacted away`},
	} {
		existing := existingOf(p)
		existing[tt.topic].Configs[tt.config] = tt.value
		create, warnings, err := p.ValidateExisting(existing)
		if err != nil || len(create) > 0 {
			t.Errorf("%s %s=%s: got %v, %v", tt.topic, tt.config, tt.value, create, err)
		}
		if got := strings.Join(warnings, "\n"); got != tt.want {
			t.Errorf("%s %s=%s:\ngot  %s\nwant %s", tt.topic, tt.config, tt.value, got, tt.want)
		}
	}
}

func TestValidateReusedSourceTopic(t *testing.T) {
	p := planOf(t, "optimized", map[string]int32{"users": 2, "in": 6})
	for policy, want := range map[string]string{
		"compact":        "",
		"delete":         `the source topic "users" serves as the changelog of store "users-store" but has cleanup.policy=delete, not compact: values that have not changed for long are deleted, and a restore misses them`,
		"compact,delete": `the source topic "users" serves as the changelog of store "users-store" but has cleanup.policy=compact,delete, not compact: values that have not changed for long are deleted, and a restore misses them`,
	} {
		existing := existingOf(p)
		existing["users"] = ExistingTopic{Partitions: 2, Configs: map[string]string{"cleanup.policy": policy}}
		_, warnings, err := p.ValidateExisting(existing)
		if got := strings.Join(warnings, "\n"); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", policy, got, err, want)
		}
	}
}

func TestExistingRepartitionTopicKeepsItsPartitions(t *testing.T) {
	topo := buildGraph(t, "group-count")
	// The input has grown from 2 to 4 partitions since the topic was made.
	const topic = "app-KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition"
	p, err := topo.Resolve("app", map[string]int32{"in": 4, topic: 2}, nil, DefaultResolveConfig())
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Repartitions[0]; r.Partitions != 2 || r.Fresh != 4 || p.Changelogs[0].Partitions != 2 {
		t.Errorf("got %+v and a changelog of %d partitions, want 2, 4 if fresh, and 2", r, p.Changelogs[0].Partitions)
	}
	_, warnings, err := p.ValidateExisting(existingOf(p))
	want := `the repartition topic "` + topic + `" exists with 2 partitions and keeps them; a new one would get 4, and as many tasks behind it`
	if err != nil || len(warnings) != 1 || warnings[0] != want {
		t.Errorf("got %v, %v, want %s", warnings, err, want)
	}

	// In a join the other side decides, and what exists must fit.
	join := joinOf(t, true, 0)
	p, err = join.Resolve("app", map[string]int32{"a": 2, "b": 3, "app-join-left-repartition": 2}, nil, DefaultResolveConfig())
	if err != nil {
		t.Fatal(err)
	}
	existing := map[string]ExistingTopic{"app-join-left-repartition": {Partitions: 2}}
	if _, _, err = p.ValidateExisting(existing); err == nil || !strings.Contains(err.Error(), `"app-join-left-repartition" exists with 2 partitions, but the topology needs 3`) {
		t.Errorf("got %v", err)
	}
}

func TestExistingPartitionsAmongRepartitionTopicsOnly(t *testing.T) {
	// Both sides of the join are repartitioned, from topics with 2 and 6 partitions.
	topo := buildGraph(t, "stream-stream-join-repartition")
	left, right := "app-j-left-repartition", "app-j-right-repartition"
	for _, tt := range []struct {
		name     string
		existing map[string]int32
		want     int32
	}{
		{"neither exists", nil, 6},
		{"both exist", map[string]int32{left: 4, right: 4}, 4},
		{"one exists", map[string]int32{left: 4}, 4},
		{"they contradict each other", map[string]int32{left: 4, right: 5}, 5},
	} {
		cluster := map[string]int32{"left": 2, "right": 6}
		maps.Copy(cluster, tt.existing)
		p, err := topo.Resolve("app", cluster, nil, DefaultResolveConfig())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Repartitions {
			if r.Partitions != tt.want {
				t.Errorf("%s: %s gets %d, want %d", tt.name, r.Name, r.Partitions, tt.want)
			}
		}
	}
}
