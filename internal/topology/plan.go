package topology

import (
	"github.com/millrace-io/millrace/internal/broker"
)

// Plan is what a topology comes to in one cluster: its tasks and the internal topics that they need.
type Plan struct {
	AppID string
	// Tasks are sorted by sub-topology and partition.
	Tasks []TaskSpec
	// Repartitions and Changelogs are the internal topics that must exist, in the order of sub-topologies and, within
	// one, of declaration.
	Repartitions []TopicSpec
	Changelogs   []TopicSpec
	// Globals are the partitions that fill global stores, one entry for each store.
	Globals []GlobalSpec
	// Copartitions are the groups of topics, by their names in the cluster, that have the same number of partitions by
	// demand. Each is sorted.
	Copartitions [][]string
}

// TaskSpec is a task: partition p of a sub-topology reads partition p of each topic that has one.
type TaskSpec struct {
	Subtopology int
	Partition   int32
	Inputs      []Input     // in the order of the source nodes; topics that match a pattern sorted by name
	Changelogs  []Changelog // of the logged stores, in the order in which the stores were added
}

// Input is a partition that a task reads, and the source node that its records enter by.
type Input struct {
	broker.TopicPartition
	Source *Node
}

// Changelog is the partition that backs a store of a task.
type Changelog struct {
	broker.TopicPartition
	Store *StateStore
	// Reused says that it is a partition that the task reads as its input: a restore ends at the committed offset.
	Reused bool
}

// GlobalSpec is a global store with all partitions of its topic.
type GlobalSpec struct {
	Global *Global
	Inputs []broker.TopicPartition
}

// TopicKind tells the kinds of internal topics apart.
type TopicKind uint8

const (
	RepartitionKind     TopicKind = iota
	ChangelogKind                 // of a key-value store
	WindowChangelogKind           // of a window or session store, those of joins too
	VersionedChangelogKind
)

// TopicSpec is an internal topic with all its settings.
type TopicSpec struct {
	broker.TopicSpec
	Kind        TopicKind
	Subtopology int         // the one that reads it (repartition) or whose stores it backs
	Raw         string      // of a repartition topic: the name without application id
	Store       *StateStore // of a changelog
	// Fresh is the number of partitions that a repartition topic would get if it did not exist, 0 if unknown; Partitions
	// is what it has, as far as nothing else decides.
	Fresh int32
}
