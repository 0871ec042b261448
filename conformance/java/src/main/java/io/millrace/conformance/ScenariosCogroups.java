package io.millrace.conformance;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** Cogroups of two and three streams: plain, by windows, by sessions, behind repartition topics. */
final class ScenariosCogroups implements Scenarios {
    private static final Duration LONG = Duration.ofHours(1);

    private static Duration ms(long n) {
        return Duration.ofMillis(n);
    }

    private static Aggregator<String, String, String> mark(String topic) {
        return (k, v, a) -> v == null ? a + topic + "~" : v.startsWith("s") ? null : a + topic + v.charAt(0);
    }

    private static Inputs input() {
        return Inputs.of(220).topic("x").topic("y").last("x", "a", "p", 500).last("y", "b", "p", 501);
    }

    private static CogroupedKStream<String, String> two(StreamsBuilder b) {
        return b.<String, String>stream("x").groupByKey().<String>cogroup(mark("x"))
            .cogroup(b.<String, String>stream("y").groupByKey(), mark("y"));
    }

    @Override
    public void register(Registry r) {
        r.stores("cogroup-plain", input(), b -> two(b).aggregate(() -> "0",
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("results").withValueSerde(Serdes.String()))
            .toStream().to("out", Produced.with(Serdes.String(), Serdes.String())));
        r.stores("cogroup-tumbling", input(), b -> two(b).windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5))).aggregate(() -> "0",
                Materialized.<String, String, WindowStore<Bytes, byte[]>>as("results").withValueSerde(Serdes.String()).withRetention(LONG))
            .toStream().to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10), Serdes.String())));
        r.stores("cogroup-sliding", input(), b -> two(b).windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(10), ms(5))).aggregate(() -> "0",
                Materialized.<String, String, WindowStore<Bytes, byte[]>>as("results").withValueSerde(Serdes.String()).withRetention(LONG))
            .toStream().to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10), Serdes.String())));
        r.stores("cogroup-sessions", input(), b -> two(b).windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(5), ms(5))).aggregate(() -> "0",
                (k, x, y) -> x + "|" + y,
                Materialized.<String, String, SessionStore<Bytes, byte[]>>as("results").withValueSerde(Serdes.String()).withRetention(LONG))
            .toStream().to("out", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.String())));
        r.stores("cogroup-repartitioned", Inputs.of(220).topic("x").topic("y").topic("z"), b ->
            b.<String, String>stream("x").groupBy((k, v) -> v == null ? "none" : v.substring(0, 1), Grouped.as("by-x"))
                .<String>cogroup(mark("x"))
                .cogroup(b.<String, String>stream("y").groupByKey(), mark("y"))
                .cogroup(b.<String, String>stream("z").groupBy((k, v) -> v == null ? "none" : v.substring(0, 1), Grouped.as("by-z")), mark("z"))
                .aggregate(() -> "0", Named.as("node"),
                    Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("results").withValueSerde(Serdes.String()))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.String())));
    }
}
