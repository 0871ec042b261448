package millrace_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// TestDescribeEqualsJava_versioned is the same for versioned tables and stores, read-only stores and global stores.
func TestDescribeEqualsJava_versioned(t *testing.T) {
	compareDescriptions(t, "testdata/describe/versioned.txt", describedVersioned)
}

// TestDescribeEqualsJava_reuse is the same for tables whose source topic is their changelog.
func TestDescribeEqualsJava_reuse(t *testing.T) {
	compareDescriptions(t, "testdata/describe/reuse.txt", describedReuse, millrace.Optimize(millrace.ReuseSourceTopics))
}

func versions(name string, opts ...millrace.StepOption) []millrace.StepOption {
	return append(opts, millrace.StoreName(name), millrace.Versioned(10*time.Millisecond))
}

// ignorer fills a global store with nothing.
type ignorer struct{}

func (ignorer) Init(processor.Context[struct{}, struct{}]) error { return nil }
func (ignorer) Process(processor.Record[string, string]) error   { return nil }
func (ignorer) Close() error                                     { return nil }

func newIgnorer() ignorer { return ignorer{} }

func readOnly(fill ...millrace.StepOption) func(*millrace.Builder) {
	return func(b *millrace.Builder) {
		st := textStore("st")
		millrace.AddReadOnlyStore(b, topicOf("t"), st, fill...)
		in := millrace.From(b, topicOf("in"), millrace.As("in-source"))
		to(millrace.Process(in, newForwarder, millrace.As("find"), millrace.WithStores(st)), "out", millrace.As("write"))
	}
}

var describedVersioned = map[string]func(*millrace.Builder){
	"versioned-table": func(b *millrace.Builder) {
		t := tableOf(b, "t", versions("v")...)
		to(leftJoinedWith(from(b, "s"), t), "out")
	},
	"versioned-table-node-named": func(b *millrace.Builder) {
		to(tableOf(b, "t", versions("v", millrace.NodeName("n"))...).ToStream(), "out")
	},
	"versioned-table-filtered": func(b *millrace.Builder) {
		t := millrace.MapTableValues(tableOf(b, "t", versions("v")...).Filter(yes), same)
		to(joinedWith(from(b, "s"), t), "out")
	},
	"versioned-table-filtered-and-kept": func(b *millrace.Builder) {
		t := tableOf(b, "t", versions("v")...).Filter(yes, versions("kept")...)
		to(joinedWith(from(b, "s"), t), "out")
	},
	"versioned-to-table": func(b *millrace.Builder) {
		to(selectValue(from(b, "in")).ToTable(versions("v", millrace.NodeName("tabled"), auto, textKey, textValue)...).ToStream(), "out")
	},
	"versioned-reduce": func(b *millrace.Builder) {
		to(from(b, "in").GroupByKey().Reduce(last, versions("v")...).ToStream(), "out")
	},
	"versioned-reduce-named": func(b *millrace.Builder) {
		g := groupByValue(from(b, "in"), millrace.RepartitionName("g"))
		to(g.Reduce(last, versions("v", millrace.NodeName("n"))...).ToStream(), "out")
	},
	"versioned-count": func(b *millrace.Builder) {
		to(millrace.Count(from(b, "in").GroupByKey(), versions("v")...).ToStream(), "out")
	},
	"versioned-tables-joined": func(b *millrace.Builder) {
		l, r := tableOf(b, "l", versions("lv")...), tableOf(b, "r", versions("rv")...)
		to(millrace.OuterJoinTables(l, r, outer, versions("kept", millrace.NodeName("j"), textValue)...).ToStream(), "out")
	},
	"versioned-tables-joined-by-foreign-key": func(b *millrace.Builder) {
		l, r := tableOf(b, "l", versions("lv")...), tableOf(b, "r", versions("rv")...)
		to(foreignJoined(l, r, versions("kept", millrace.NodeName("fj"), textValue)...).ToStream(), "out")
	},
	"versioned-store": func(b *millrace.Builder) {
		v := millrace.NewVersionedStore("v", 10*time.Millisecond, serde.String, serde.String)
		to(millrace.Process(from(b, "in"), newForwarder, millrace.WithStores(v)), "out")
	},
	"global-store": func(b *millrace.Builder) {
		millrace.AddGlobalStore(b, topicOf("g"), textStore("st"), newIgnorer)
		to(millrace.Process(from(b, "in"), newForwarder), "out")
	},
	"global-store-named": func(b *millrace.Builder) {
		millrace.AddGlobalStore(b, topicOf("g"), textStore("st"), newIgnorer, millrace.As("fill"))
		to(millrace.Process(from(b, "in"), newForwarder), "out")
	},
	"global-stores-between": func(b *millrace.Builder) {
		to(from(b, "a"), "a-out")
		millrace.AddGlobalStore(b, topicOf("g1"), textStore("one"), newIgnorer)
		millrace.GlobalTableFrom(b, topicOf("g2"), millrace.StoreName("two"))
		to(millrace.Count(groupByValue(from(b, "b")), auto).ToStream(), "b-out")
		millrace.AddGlobalStore(b, topicOf("g3"), textStore("three"), newIgnorer)
	},
	"read-only-store":       readOnly(),
	"read-only-store-named": readOnly(millrace.As("fill")),
}

var describedReuse = map[string]func(*millrace.Builder){
	"reuse-table": func(b *millrace.Builder) {
		t := tableOf(b, "t", millrace.StoreName("rows"))
		to(leftJoinedWith(from(b, "s"), t), "out")
	},
	"reuse-table-numbered": func(b *millrace.Builder) {
		t := tableOf(b, "t", auto)
		to(leftJoinedWith(from(b, "s"), t), "out")
	},
	"reuse-table-not-kept": func(b *millrace.Builder) { to(tableOf(b, "t", auto).ToStream(), "out") },
	"reuse-table-filtered": func(b *millrace.Builder) {
		t := tableOf(b, "t", auto).Filter(yes, millrace.StoreName("kept"))
		to(leftJoinedWith(from(b, "s"), t), "out")
	},
	"reuse-versioned-table": func(b *millrace.Builder) {
		t := tableOf(b, "t", versions("v")...)
		to(leftJoinedWith(from(b, "s"), t), "out")
	},
	"reuse-tables-joined": func(b *millrace.Builder) {
		to(joinTexts(tableOf(b, "l", auto), tableOf(b, "r", auto)).ToStream(), "out")
	},
	"reuse-to-table": func(b *millrace.Builder) { to(from(b, "in").ToTable(millrace.StoreName("rows")).ToStream(), "out") },
}
