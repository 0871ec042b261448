package io.millrace.conformance;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.StreamsBuilder;

/** Inputs of what is decided not to be as in Kafka Streams about windows and sessions. Models judge the twins. */
final class ScenariosDecidedSessions implements Scenarios {
    private static Duration ms(long n) {
        return Duration.ofMillis(n);
    }

    private static final SessionWindows SESSIONS = SessionWindows.ofInactivityGapAndGrace(ms(6), ms(5));

    private static SessionWindowedKStream<String, String> sessions(StreamsBuilder b) {
        return b.<String, String>stream("in").groupByKey().windowedBy(SESSIONS);
    }

    private static void out(KTable<Windowed<String>, Long> t) {
        t.toStream().to("out", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.Long()));
    }

    @Override
    public void register(Registry r) {
        Inputs edge = Inputs.of(300).topic("in").headers(0).ties(0.25).grid(0.3, 6).disorder(0.35, 20).last("in", "a", "end", 90);
        // Sessions that end where the default retention does.
        r.stores("session-at-the-edge", edge, b -> out(sessions(b).count(Materialized.as("counts"))));
        r.add("session-close-after-jumps", Inputs.of(300).topic("in").headers(0).ties(0.25).disorder(0.35, 15).jumps(0.1, 60).last("in", "a", "end", 90),
            b -> out(sessions(b).emitStrategy(EmitStrategy.onWindowClose()).count(Materialized.as("counts"))));
        r.add("session-of-a-moment", edge, b ->
            sessions(b).count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("counts").withRetention(Duration.ofHours(1)))
                .groupBy((k, n) -> KeyValue.pair(k.key(), n), Grouped.with("g", Serdes.String(), Serdes.Long()))
                .aggregate(() -> 0L, (k, n, sum) -> sum + n, (k, n, sum) -> sum - n, Materialized.as("sums"))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));

        // Two streams of a cogroup, one of which may lie far behind.
        r.add("cogroup-sessions-behind", Inputs.of(250).topic("x", t -> t.keys("a", "b").weight(3)).topic("y", t -> t.keys("a", "b"))
            .headers(0).disorder(0.5, 40), b ->
            out(b.<String, String>stream("x").groupByKey().<Long>cogroup((k, v, n) -> n + 1)
                .cogroup(b.<String, String>stream("y").groupByKey(), (k, v, n) -> n + 1)
                .windowedBy(SESSIONS)
                .aggregate(() -> 0L, (k, m, n) -> m + n, Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("counts").withValueSerde(Serdes.Long()))));

        r.add("sliding-close-after-jumps", Inputs.of(250).topic("in").headers(0).jumps(0.1, 150).last("in", "a", "end", 200), b ->
            b.<String, String>stream("in").groupByKey().windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(10), ms(30)))
                .emitStrategy(EmitStrategy.onWindowClose())
                .count(Materialized.as("counts"))
                .toStream().to("out", Produced.with(ScenariosTimeWindows.windows(10), Serdes.Long())));

        r.add("tumbling-reduce-of-nulls", Inputs.of(250).topic("in", t -> t.nullValues(0.3)).headers(0), b ->
            b.<String, String>stream("in").groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(20)))
                .reduce((x, y) -> x + "," + y, Materialized.as("texts"))
                .toStream().to("out", Produced.with(ScenariosTimeWindows.windows(10), Serdes.String())));
    }
}
