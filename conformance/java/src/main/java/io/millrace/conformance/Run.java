package io.millrace.conformance;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.InternalTopicConfig;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder;
import org.apache.kafka.streams.processor.internals.ProcessorMetadata;
import org.apache.kafka.streams.processor.internals.TopicPartitionMetadata;
import org.apache.kafka.streams.state.internals.TimeOrderedKeyValueBuffer;
import org.apache.kafka.streams.state.internals.WrappedStateStore;
import org.apache.kafka.streams.test.TestRecord;

/** One run of a scenario, written line by line. */
final class Run {
    static final int FORMAT = 1;
    static final String APPLICATION = "conformance";
    static final long WALL_CLOCK = 1_700_000_000_000L;
    private static final long ADDITIONAL_RETENTION = Duration.ofDays(1).toMillis();
    private static final int OFFSETS_EVERY = 50;

    private final Scenario scenario;
    private final long seed;
    private final Lines out;
    private TopologyTestDriver driver;
    private int inputs;
    private int outputs;

    Run(Scenario scenario, long seed, Lines out) {
        this.scenario = scenario;
        this.seed = seed;
        this.out = out;
    }

    void write(Path stateDir) throws IOException, ReflectiveOperationException {
        Properties config = config(stateDir);
        Topology topology = scenario.program().build(config);
        out.write("scenario", scenario.name(), "seed", seed, "format", FORMAT, "application", APPLICATION,
            "wall", WALL_CLOCK, "config", scenario.config());
        out.write("describe", topology.describe().toString());
        try (TopologyTestDriver d = new TopologyTestDriver(topology, config, Instant.ofEpochMilli(WALL_CLOCK))) {
            driver = d;
            writeInternalTopics();
            feed(scenario.inputs().draw(new Random(seed * 0x9E3779B97F4A7C15L + scenario.input().hashCode())));
            writeOffsets();
        }
        out.write("end", true, "inputs", inputs, "outputs", outputs);
    }

    private Properties config(Path stateDir) {
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        p.put(StreamsConfig.STATE_DIR_CONFIG, stateDir.toString());
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        p.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
        p.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        p.putAll(scenario.config());
        return p;
    }

    private void feed(List<Inputs.Step> steps) throws IOException, ReflectiveOperationException {
        Map<String, TestInputTopic<byte[], byte[]>> topics = new TreeMap<>();
        for (Inputs.Step s : steps) {
            inputs++;
            if (s.isRecord()) {
                write("in", s.topic(), s.key(), s.value(), s.timestamp(), s.headers());
            } else {
                out.write("advance", s.advance());
            }
            try {
                if (s.isRecord()) {
                    topics.computeIfAbsent(s.topic(), t -> driver.createInputTopic(t, new ByteArraySerializer(), new ByteArraySerializer()))
                        .pipeInput(new TestRecord<>(s.key(), s.value(), s.headers(), s.timestamp()));
                } else {
                    driver.advanceWallClockTime(Duration.ofMillis(s.advance()));
                }
            } catch (RuntimeException e) {
                writeOutputs();
                out.write("fails", e.getClass().getName(), "message", String.valueOf(e.getMessage()));
                return;
            }
            writeOutputs();
            if (inputs % OFFSETS_EVERY == 0) {
                writeOffsets();
            }
        }
    }

    private void writeOutputs() throws IOException {
        for (String topic : new TreeSet<>(driver.producedTopicNames())) {
            var records = driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            while (!records.isEmpty()) {
                TestRecord<byte[], byte[]> r = records.readRecord();
                outputs++;
                write("out", topic, r.key(), r.value(), r.timestamp(), r.headers());
            }
        }
    }

    private void write(String kind, String topic, byte[] key, byte[] value, Long timestamp, Headers headers) throws IOException {
        List<Object> list = new ArrayList<>();
        for (Header h : headers) {
            List<Object> pair = new ArrayList<>();
            pair.add(h.key());
            pair.add(h.value());
            list.add(pair);
        }
        if (list.isEmpty()) {
            out.write(kind, topic, "k", key, "v", value, "t", timestamp);
        } else {
            out.write(kind, topic, "k", key, "v", value, "t", timestamp, "h", list);
        }
    }

    /** The internal topics with their settings, and whether they are the changelog of a buffer. */
    private void writeInternalTopics() throws IOException, ReflectiveOperationException {
        Set<String> buffers = new HashSet<>();
        for (Map.Entry<String, StateStore> e : driver.getAllStateStores().entrySet()) {
            StateStore s = e.getValue();
            while (s instanceof WrappedStateStore<?, ?, ?> w) {
                s = w.wrapped();
            }
            if (s instanceof TimeOrderedKeyValueBuffer) {
                buffers.add(APPLICATION + "-" + e.getKey() + "-changelog");
            }
        }
        InternalTopologyBuilder b = field(driver, "internalTopologyBuilder");
        Map<String, InternalTopicConfig> topics = new TreeMap<>();
        for (InternalTopologyBuilder.TopicsInfo info : b.subtopologyToTopicsInfo().values()) {
            topics.putAll(info.repartitionSourceTopics);
            for (InternalTopicConfig c : info.nonSourceChangelogTopics()) {
                topics.put(c.name(), c);
            }
        }
        for (InternalTopicConfig c : topics.values()) {
            out.write("internal", c.name(), "config", c.properties(Map.of(), ADDITIONAL_RETENTION),
                "partitions", c.hasEnforcedNumberOfPartitions() ? c.numberOfPartitions().orElse(0) : 0,
                "buffer", buffers.contains(c.name()));
        }
    }

    /**
     * What the metadata of the committed offsets says. The offsets themselves are always 0: the driver hands records to its
     * task past the consumer.
     */
    private void writeOffsets() throws IOException, ReflectiveOperationException {
        MockConsumer<byte[], byte[]> consumer = field(driver, "consumer");
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(new HashSet<>(consumer.assignment()));
        TreeMap<String, OffsetAndMetadata> sorted = new TreeMap<>();
        committed.forEach((p, o) -> {
            if (o != null) {
                sorted.put(p.topic(), o);
            }
        });
        for (Map.Entry<String, OffsetAndMetadata> e : sorted.entrySet()) {
            TopicPartitionMetadata m = TopicPartitionMetadata.decode(e.getValue().metadata());
            Map<String, Long> entries = field(m.processorMetadata(), "metadata");
            out.write("offset", e.getKey(), "time", m.partitionTime(), "entries", entries);
        }
    }

    @SuppressWarnings("unchecked")
    private static <T> T field(Object of, String name) throws ReflectiveOperationException {
        Field f = of.getClass().getDeclaredField(name);
        f.setAccessible(true);
        return (T) f.get(of);
    }
}
