package io.millrace.bench;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** The topologies, one for each scenario. */
final class Scenarios {
    private static final char FILTER_DROPS = '9';
    private static final byte MAPPED_MARK = 'M';
    private static final int JOINED_BYTES = 8;
    private static final int GROUP_CHARS = 11;
    private static final Duration WINDOW_SIZE = Duration.ofMinutes(1);
    private static final Duration WINDOW_GRACE = Duration.ofSeconds(10);
    private static final Duration WINDOW_ADVANCE = Duration.ofSeconds(20);
    private static final Duration SESSION_GAP = Duration.ofSeconds(10);
    private static final Duration SESSION_GRACE = Duration.ofSeconds(10);

    private Scenarios() {
    }

    static Topology topology(Map<String, String> config, Serde<byte[]> inputValues) {
        StreamsBuilder builder = new StreamsBuilder();
        Serde<String> strings = Serdes.String();
        KStream<String, byte[]> input = builder.stream(config.get("input"), Consumed.with(strings, inputValues));
        String output = config.get("output");
        switch (config.get("scenario")) {
            case "filter-map":
                input.filter((k, v) -> k.charAt(k.length() - 1) != FILTER_DROPS)
                    .mapValues(Scenarios::marked)
                    .to(output, Produced.with(strings, Serdes.ByteArray()));
                break;
            case "count":
            case "count-nocache":
                input.groupByKey(Grouped.with(strings, inputValues))
                    .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
                    .toStream()
                    .to(output, Produced.with(strings, Serdes.Long()));
                break;
            case "group-count":
                input.groupBy((k, v) -> k.substring(0, GROUP_CHARS), Grouped.with("groups", strings, Serdes.ByteArray()))
                    .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
                    .toStream()
                    .to(output, Produced.with(strings, Serdes.Long()));
                break;
            case "tumbling-count":
                countWindows(input.groupByKey(Grouped.with(strings, inputValues)),
                    TimeWindows.ofSizeAndGrace(WINDOW_SIZE, WINDOW_GRACE), output);
                break;
            case "hopping-count":
                countWindows(input.groupByKey(Grouped.with(strings, inputValues)),
                    TimeWindows.ofSizeAndGrace(WINDOW_SIZE, WINDOW_GRACE).advanceBy(WINDOW_ADVANCE), output);
                break;
            case "session-count":
                input.groupByKey(Grouped.with(strings, inputValues))
                    .windowedBy(SessionWindows.ofInactivityGapAndGrace(SESSION_GAP, SESSION_GRACE))
                    .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("counts"))
                    .toStream()
                    .to(output, Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.Long()));
                break;
            case "stream-table-join":
                KTable<String, byte[]> table = builder.table(config.get("table"),
                    Consumed.with(strings, Serdes.ByteArray()),
                    Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as("table"));
                input.join(table, Scenarios::joined, Joined.with(strings, inputValues, Serdes.ByteArray()))
                    .to(output, Produced.with(strings, Serdes.ByteArray()));
                break;
            default:
                throw new IllegalArgumentException("unknown scenario " + config.get("scenario"));
        }
        return builder.build();
    }

    private static void countWindows(KGroupedStream<String, byte[]> grouped, TimeWindows windows, String output) {
        grouped.windowedBy(windows)
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts"))
            .toStream()
            .to(output, Produced.with(
                WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW_SIZE.toMillis()), Serdes.Long()));
    }

    private static byte[] marked(byte[] value) {
        byte[] out = value.clone();
        out[0] = MAPPED_MARK;
        return out;
    }

    private static byte[] joined(byte[] value, byte[] row) {
        byte[] out = value.clone();
        System.arraycopy(row, 0, out, 0, JOINED_BYTES);
        return out;
    }
}
