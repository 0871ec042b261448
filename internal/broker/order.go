package broker

import (
	"cmp"
	"slices"
)

// Compare orders partitions by topic, then number.
func (tp TopicPartition) Compare(o TopicPartition) int {
	return cmp.Or(cmp.Compare(tp.Topic, o.Topic), cmp.Compare(tp.Partition, o.Partition))
}

// SortPartitions sorts by topic, then partition.
func SortPartitions(tps []TopicPartition) { slices.SortFunc(tps, TopicPartition.Compare) }

// Compare orders tasks by subtopology, then partition.
func (t TaskID) Compare(o TaskID) int {
	return cmp.Or(cmp.Compare(t.Subtopology, o.Subtopology), cmp.Compare(t.Partition, o.Partition))
}

// WithoutTasks gives tasks that are not among others. It does not change what it is given.
func WithoutTasks(tasks, others []TaskID) []TaskID {
	return slices.DeleteFunc(slices.Clone(tasks), func(t TaskID) bool { return slices.Contains(others, t) })
}

// SortTasks sorts by subtopology, then partition.
func SortTasks(ids []TaskID) { slices.SortFunc(ids, TaskID.Compare) }
