package io.millrace.conformance;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** Suppressions and joins with a grace period beside every other operation, and longer chains of operations. */
final class ScenariosSuppressPairs implements Scenarios {
    private static Duration ms(long n) {
        return Duration.ofMillis(n);
    }

    private static <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> kv(String name, Serde<V> value) {
        return Materialized.<String, V, KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(Serdes.String()).withValueSerde(value);
    }

    private static <V> Materialized<String, V, WindowStore<Bytes, byte[]>> windows(String name, Serde<V> value) {
        return Materialized.<String, V, WindowStore<Bytes, byte[]>>as(name).withKeySerde(Serdes.String()).withValueSerde(value);
    }

    /** The retention is long, so that the store hides no session that the step still adds to. */
    private static <V> Materialized<String, V, SessionStore<Bytes, byte[]>> sessions(String name, Serde<V> value) {
        return Materialized.<String, V, SessionStore<Bytes, byte[]>>as(name).withKeySerde(Serdes.String()).withValueSerde(value)
            .withRetention(Duration.ofHours(1));
    }

    private static KGroupedStream<String, String> grouped(StreamsBuilder b, String topic) {
        return b.<String, String>stream(topic).groupByKey();
    }

    private static <V> KTable<Windowed<String>, V> closed(KTable<Windowed<String>, V> t) {
        return t.suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("closed"));
    }

    /**
     * The buffer has no log: it would show that Java sends the update of a session of one moment without its old value, and
     * that of a sliding window with another one, which are deliberate differences.
     */
    private static <V> KTable<Windowed<String>, V> closedWithoutLog(KTable<Windowed<String>, V> t) {
        return t.suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded().withLoggingDisabled()).withName("closed"));
    }

    private static KTable<String, String> held(KTable<String, String> t) {
        return t.suppress(Suppressed.<String>untilTimeLimit(ms(12), BufferConfig.unbounded()).withName("held"));
    }

    private static KTable<String, Long> regrouped(KTable<Windowed<String>, Long> t) {
        return t.toStream().selectKey((k, n) -> k.key())
            .groupByKey(Grouped.<String, Long>as("g").withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .reduce(Long::sum, kv("sums", Serdes.Long()));
    }

    private static CogroupedKStream<String, String> two(StreamsBuilder b) {
        return grouped(b, "x").<String>cogroup((k, v, a) -> a + "x" + v.charAt(0)).cogroup(grouped(b, "y"), (k, v, a) -> a + "y" + v.charAt(0));
    }

    private static Inputs one() {
        return Inputs.of(220).topic("in", t -> t.nullValues(0)).last("in", "z", "end", 200);
    }

    /**
     * No record comes at the very moment at which Java lets a session or a sliding window leave that can still grow, which is a
     * deliberate difference.
     */
    private static Inputs noneAtTheClose(Inputs in) {
        return in.start(20).step(2).disorder(0.25, 6).times(3);
    }

    private static Inputs xy() {
        return Inputs.of(240).topic("x", t -> t.nullValues(0)).topic("y", t -> t.nullValues(0)).last("x", "a", "p", 500).last("y", "b", "p", 501);
    }

    /** Each key has a version from the beginning on: Java forgets a deletion that takes the place of the oldest version. */
    private static Inputs versions(double nullKeys) {
        return Inputs.of(260).topic("s", t -> t.nullKeys(nullKeys)).topic("t", t -> t.nullValues(0.2)).disorder(0.4, 30)
            .first("t", "a", "p", 0).first("t", "b", "q", 0).first("t", "c", "r", 0).last("s", "a", "end", 200);
    }

    private static Inputs rows() {
        return Inputs.of(240).topic("in", t -> t.keys("a", "b", "c", "ab").nullValues(0.15)).last("in", "a", "end", 100).last("in", "z", "end", 200);
    }

    private static Inputs rowsAndOthers() {
        return Inputs.of(260).first("s", "a", "p", 0).first("s", "b", "q", 0).first("s", "c", "r", 0).first("s", "ab", "s", 0)
            .topic("in", t -> t.keys("a", "b", "c", "ab").nullValues(0.15).weight(2)).topic("s", t -> t.nullValues(0)).last("in", "a", "end", 100).last("in", "z", "end", 200);
    }

    @Override
    public void register(Registry r) {
        joinGrace(r);
        behind(r);
        before(r);
        chains(r);
    }

    private void joinGrace(Registry r) {
        for (long history : new long[] {25, 3_600_000}) {
            r.add("join-grace-inner-" + history, versions(0.03), b -> {
                KTable<String, String> t = b.table("t", Materialized.as(Stores.persistentVersionedKeyValueStore("rows", ms(history))));
                b.<String, String>stream("s").join(t, (x, y) -> x + "/" + y, Joined.<String, String, String>as("j").withGracePeriod(ms(12))).to("out");
            });
            // Java fails at a null key of a left join with a grace period.
            r.add("join-grace-left-" + history, versions(0), b -> {
                KTable<String, String> t = b.table("t", Materialized.as(Stores.persistentVersionedKeyValueStore("rows", ms(history))));
                b.<String, String>stream("s").leftJoin(t, (x, y) -> x + "/" + y, Joined.<String, String, String>as("j").withGracePeriod(ms(12))).to("out");
            });
        }
        r.add("join-grace-counted", versions(0.03), b -> {
            KTable<String, String> t = b.table("t", Materialized.as(Stores.persistentVersionedKeyValueStore("rows", Duration.ofHours(1))));
            b.<String, String>stream("s").join(t, (x, y) -> x.substring(0, 1) + y.charAt(0), Joined.<String, String, String>as("j").withGracePeriod(ms(9)))
                .groupBy((k, v) -> v, Grouped.as("g"))
                .count(kv("counts", Serdes.Long()))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long()));
        });
    }

    private void behind(Registry r) {
        r.stores("suppress-sliding", noneAtTheClose(one()), b ->
            closedWithoutLog(grouped(b, "in").windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(10), ms(5))).count(windows("counts", Serdes.Long())))
                .toStream().to("out", Produced.with(ScenariosTimeWindows.windows(10), Serdes.Long())));
        r.stores("suppress-sessions", noneAtTheClose(one()), b ->
            closedWithoutLog(grouped(b, "in").windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(6), ms(5))).count(sessions("counts", Serdes.Long())))
                .toStream().to("out", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.Long())));
        r.stores("suppress-cogroup-tumbling", xy(), b ->
            closed(two(b).windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5))).aggregate(() -> "", windows("all", Serdes.String()).withRetention(Duration.ofHours(1))))
                .toStream().to("out", Produced.with(ScenariosTimeWindows.windows(10), Serdes.String())));
        r.stores("suppress-cogroup-sessions", noneAtTheClose(xy()), b ->
            closedWithoutLog(two(b).windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(6), ms(5))).aggregate(() -> "", (k, x, y) -> x + "|" + y, sessions("all", Serdes.String())))
                .toStream().to("out", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.String())));
        r.stores("suppress-cogroup", xy(), b ->
            held(two(b).aggregate(() -> "", kv("all", Serdes.String()))).toStream().to("out"));
        r.stores("suppress-table-groups", rows(), b ->
            b.<String, String>table("in", kv("rows", Serdes.String()))
                .groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), v), Grouped.as("g"))
                .count(kv("counts", Serdes.Long()))
                .suppress(Suppressed.<String>untilTimeLimit(ms(12), BufferConfig.maxRecords(2)).withName("held"))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));
    }

    private void before(Registry r) {
        // What is grouped, or refers to another table, is a deliberate difference: see the models of the twins.
        r.stores("suppress-group", rows().headers(0), b ->
            held(b.table("in", kv("rows", Serdes.String())))
                .groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), v), Grouped.as("g"))
                .aggregate(() -> "", (k, v, a) -> a + "+" + v, (k, v, a) -> a + "-" + v, kv("all", Serdes.String()))
                .toStream().to("out"));
        // The other rows are always there: where they are not, a deletion of a row that was never sent is a deliberate difference.
        r.stores("suppress-right-of-join", rowsAndOthers(), b -> {
            KTable<String, String> held = held(b.table("in", kv("rows", Serdes.String())));
            KTable<String, String> other = b.table("s", kv("others", Serdes.String()));
            other.leftJoin(held, (x, y) -> x + "/" + y, Named.as("j"), kv("joined", Serdes.String())).toStream().to("left");
            held.outerJoin(other, (x, y) -> x + "/" + y, Named.as("k"), kv("joined-too", Serdes.String())).toStream().to("outer");
        });
        r.stores("suppress-foreign-key", Inputs.of(300).headers(0)
            .topic("l", t -> t.keys("p1", "p2", "p3").values(ScenariosForeignKey::reference).nullValues(0.15).weight(2))
            .topic("r", t -> t.keys("d1", "d2", "d3", "", "dd1").nullValues(0.2)).last("l", "p1", "d1:x", 100).last("r", "d1", "end", 100), b -> {
            KTable<String, String> left = held(b.table("l", kv("left", Serdes.String())));
            KTable<String, String> right = b.table("r", kv("right", Serdes.String()));
            left.leftJoin(right, ScenariosForeignKey::foreign, (x, y) -> x + "/" + y, TableJoined.as("fj")).toStream().to("out");
        });
        r.stores("suppress-windows-group", Inputs.of(250).topic("in", t -> t.nullValues(0)).headers(0).last("in", "z", "end", 200), b ->
            closed(grouped(b, "in").windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5))).count(windows("counts", Serdes.Long())))
                .groupBy((k, n) -> KeyValue.pair(k.key(), n), Grouped.<String, Long>as("g").withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
                .aggregate(() -> 0L, (k, n, sum) -> sum + n, (k, n, sum) -> sum - n, kv("sums", Serdes.Long()))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));
        r.stores("sliding-group", Inputs.of(200).topic("in", t -> t.keys("a", "b")).start(1000).disorder(0.4, 25).headers(0), b ->
            grouped(b, "in").windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(10), ms(1000))).count(windows("counts", Serdes.Long()))
                .groupBy((k, n) -> KeyValue.pair(k.key(), n), Grouped.<String, Long>as("g").withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
                .aggregate(() -> 0L, (k, n, sum) -> sum + n, (k, n, sum) -> sum - n, kv("sums", Serdes.Long()))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));
        // Final results of sessions, with records at the moments at which they close, are a deliberate difference too.
        r.add("suppress-sessions-final", Inputs.of(250).topic("in", t -> t.nullValues(0)).headers(0).disorder(0.5, 25).last("in", "z", "end", 90), b ->
            closed(grouped(b, "in").windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(6), ms(5))).count(Materialized.as("counts")))
                .toStream().to("out", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.Long())));
        r.stores("suppress-foreign-key-right", Inputs.of(300)
            .topic("l", t -> t.keys("p1", "p2", "p3").values(ScenariosForeignKey::reference).nullValues(0.15).weight(2))
            .topic("r", t -> t.keys("d1", "d2", "d3", "", "dd1").nullValues(0.2)).last("l", "p1", "d1:x", 100).last("r", "d1", "end", 100), b -> {
            KTable<String, String> left = b.table("l", kv("left", Serdes.String()));
            KTable<String, String> right = held(b.table("r", kv("right", Serdes.String())));
            left.join(right, ScenariosForeignKey::foreign, (x, y) -> x + "/" + y, TableJoined.as("fj")).toStream().to("out");
        });
    }

    private void chains(Registry r) {
        r.stores("window-suppress-regroup-join", Inputs.of(260).topic("in", t -> t.nullValues(0).weight(2)).topic("s").last("in", "z", "end", 200).last("s", "a", "end", 0), b -> {
            KTable<String, Long> sums = regrouped(closed(grouped(b, "in").windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5))).count(windows("counts", Serdes.Long()))));
            b.<String, String>stream("s").leftJoin(sums, (v, n) -> v + "/" + n, Joined.as("j")).to("out");
        });
        // The grace is long: late records of a join are a deliberate difference.
        r.stores("join-streams-window-suppress", Inputs.of(220).topic("l").topic("r").last("l", "a", "end", 200).last("r", "a", "end", 2), b -> {
            KStream<String, String> right = b.stream("r");
            b.<String, String>stream("l").join(right, (x, y) -> x + "/" + y, JoinWindows.ofTimeDifferenceAndGrace(ms(6), Duration.ofHours(1)), StreamJoined.<String, String, String>as("j").withName("j"))
                .groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)))
                .count(windows("counts", Serdes.Long()))
                .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("closed"))
                .toStream().to("out", Produced.with(ScenariosTimeWindows.windows(10), Serdes.Long()));
        });
        r.stores("foreign-key-grouped", Inputs.of(300)
            .topic("l", t -> t.keys("p1", "p2", "p3").values(ScenariosForeignKey::reference).nullValues(0.15).weight(2))
            .topic("r", t -> t.keys("d1", "d2", "d3", "", "dd1").nullValues(0.2)), b -> {
            KTable<String, String> left = b.table("l", kv("left", Serdes.String()));
            KTable<String, String> right = b.table("r", kv("right", Serdes.String()));
            left.join(right, ScenariosForeignKey::foreign, (x, y) -> x + "/" + y, TableJoined.as("fj"), kv("joined", Serdes.String()))
                .groupBy((k, v) -> KeyValue.pair(v.substring(v.indexOf('/') + 1, v.indexOf('/') + 2), v), Grouped.as("g"))
                .aggregate(() -> "", (k, v, a) -> a + "+" + v, (k, v, a) -> a + "-" + v, kv("all", Serdes.String()))
                .toStream().to("out");
        });
        r.stores("cogroup-join", Inputs.of(260).topic("x", t -> t.nullValues(0)).topic("y", t -> t.nullValues(0)).topic("s"), b -> {
            KTable<String, String> all = two(b).aggregate(() -> "", kv("all", Serdes.String()));
            b.<String, String>stream("s").leftJoin(all, (v, a) -> v + "/" + a, Joined.as("j")).to("out");
        });
        r.stores("session-regroup-count", one(), b ->
            grouped(b, "in").windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(6), ms(5))).count(sessions("counts", Serdes.Long()))
                .toStream()
                .filter((k, n) -> n != null)
                .map((k, n) -> KeyValue.pair(k.key() + n % 3, Long.toString(k.window().end())))
                .groupByKey(Grouped.as("g"))
                .count(kv("again", Serdes.Long()))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));
        r.stores("session-suppress-regroup", noneAtTheClose(one()), b ->
            regrouped(closedWithoutLog(grouped(b, "in").windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(6), ms(5))).count(sessions("counts", Serdes.Long()))))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));
    }
}
