package kgoclient

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// The topology as the streams group protocol sends it with a join: what Kafka Streams sends for the same topology, in its order,
// since the brokers compare the whole with what the group has.

// topologyEpoch is the version of a topology. Brokers refuse any change of it, and Kafka Streams sends 0 too.
const topologyEpoch = 0

func topologyRequest(t broker.GroupTopology) *kmsg.StreamsGroupHeartbeatRequestTopology {
	req := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	req.Epoch = topologyEpoch
	for _, s := range t.Subtopologies {
		req.Subtopologies = append(req.Subtopologies, subtopologyRequest(s))
	}
	slices.SortFunc(req.Subtopologies, func(a, b kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) int {
		return cmp.Compare(a.SubtopologyID, b.SubtopologyID)
	})
	return &req
}

func subtopologyRequest(s broker.Subtopology) kmsg.StreamsGroupHeartbeatRequestTopologySubtopology {
	sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	sub.SubtopologyID = subtopologyID(s.ID)
	sub.SourceTopics = slices.Compact(slices.Sorted(slices.Values(s.Told.Sources)))
	sub.RepartitionSinkTopics = slices.Compact(slices.Sorted(slices.Values(s.Told.Sinks)))
	sub.RepartitionSourceTopics = topicInfos(s.Told.Repartitions)
	sub.StateChangelogTopics = topicInfos(s.Told.Changelogs)
	for _, group := range s.Told.Copartitions {
		g := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
		for _, topic := range group {
			if i := slices.Index(sub.SourceTopics, topic); i >= 0 {
				g.SourceTopics = append(g.SourceTopics, int16(i))
			} else if i := slices.IndexFunc(sub.RepartitionSourceTopics, func(r kmsg.TopicInfo) bool { return r.Topic == topic }); i >= 0 {
				g.RepartitionSourceTopics = append(g.RepartitionSourceTopics, int16(i))
			}
		}
		sub.CopartitionGroups = append(sub.CopartitionGroups, g)
	}
	return sub
}

func topicInfos(specs []broker.TopicSpec) []kmsg.TopicInfo {
	var infos []kmsg.TopicInfo
	for _, spec := range specs {
		info := kmsg.NewTopicInfo()
		info.Topic, info.NumPartitions, info.ReplicationFactor = spec.Name, spec.Partitions, spec.ReplicationFactor
		for _, key := range slices.Sorted(maps.Keys(spec.Configs)) {
			c := kmsg.NewTopicInfoConfig()
			c.Key, c.Value = key, spec.Configs[key]
			info.Configs = append(info.Configs, c)
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b kmsg.TopicInfo) int { return cmp.Compare(a.Topic, b.Topic) })
	return infos
}

func subtopologyID(id int) string { return strconv.Itoa(id) }

// taskIDs groups tasks by sub-topology. It never gives nil, which says that nothing has changed.
func taskIDs(tasks []broker.TaskID) []kmsg.TaskIDs {
	ids := []kmsg.TaskIDs{}
	tasks = slices.Clone(tasks)
	broker.SortTasks(tasks)
	for _, t := range tasks {
		if id := subtopologyID(t.Subtopology); len(ids) == 0 || ids[len(ids)-1].SubtopologyID != id {
			ids = append(ids, kmsg.TaskIDs{SubtopologyID: id})
		}
		last := &ids[len(ids)-1]
		last.Partitions = append(last.Partitions, t.Partition)
	}
	return ids
}

// tasksOf is its opposite. Brokers name no sub-topology that they were not told of; one that is not a number is another
// program's.
func tasksOf(ids []kmsg.TaskIDs) (tasks []broker.TaskID, err error) {
	for _, id := range ids {
		n, err := strconv.Atoi(id.SubtopologyID)
		if err != nil {
			return nil, err
		}
		for _, p := range id.Partitions {
			tasks = append(tasks, broker.TaskID{Subtopology: n, Partition: p})
		}
	}
	broker.SortTasks(tasks)
	return tasks, nil
}

// offsetsOf is how far copies of tasks are.
func offsetsOf(at map[broker.TaskID]int64) []kmsg.TaskOffset {
	offsets := []kmsg.TaskOffset{}
	tasks := slices.Collect(maps.Keys(at))
	broker.SortTasks(tasks)
	for _, t := range tasks {
		offsets = append(offsets, kmsg.TaskOffset{SubtopologyID: subtopologyID(t.Subtopology), Partition: t.Partition, Offset: at[t]})
	}
	return offsets
}
