package io.millrace.conformance;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.WindowStore;

/** Aggregations by tumbling, hopping, sliding and unlimited windows, with updates and with results on close. */
final class ScenariosWindows implements Scenarios {
    private interface Grouping extends BiFunction<KGroupedStream<String, String>, Duration, TimeWindowedKStream<String, String>> { }

    private interface Aggregation extends BiFunction<TimeWindowedKStream<String, String>, Duration, KTable<Windowed<String>, ?>> { }

    private static Duration ms(long n) {
        return Duration.ofMillis(n);
    }

    private static <V> Materialized<String, V, WindowStore<Bytes, byte[]>> store(Duration retention, Serde<V> value) {
        Materialized<String, V, WindowStore<Bytes, byte[]>> m = Materialized.as("results");
        m.withValueSerde(value);
        return retention == null ? m : m.withRetention(retention);
    }

    @Override
    public void register(Registry r) {
        Map<String, Grouping> kinds = new LinkedHashMap<>();
        kinds.put("tumbling", (g, grace) -> g.windowedBy(TimeWindows.ofSizeAndGrace(ms(10), grace)));
        kinds.put("hopping", (g, grace) -> g.windowedBy(TimeWindows.ofSizeAndGrace(ms(20), grace).advanceBy(ms(5))));
        kinds.put("uneven", (g, grace) -> g.windowedBy(TimeWindows.ofSizeAndGrace(ms(10), grace).advanceBy(ms(4))));
        kinds.put("sliding", (g, grace) -> g.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(10), grace)));
        Map<String, Aggregation> aggregations = new LinkedHashMap<>();
        aggregations.put("count", (w, keep) -> w.count(store(keep, Serdes.Long())));
        aggregations.put("sum", (w, keep) -> w.aggregate(() -> 0L, (k, v, a) -> a + (v == null ? 0 : v.length()), store(keep, Serdes.Long())));
        aggregations.put("reduce", (w, keep) -> w.reduce((a, v) -> v == null ? null : a + v, store(keep, Serdes.String())));
        // A value that begins with s deletes the result.
        aggregations.put("aggregate", (w, keep) -> w.aggregate(() -> "", (k, v, a) ->
            v == null ? a + "~" : v.startsWith("s") ? null : a + v.charAt(0), store(keep, Serdes.String())));

        String[][] updates = {{"count", "0"}, {"sum", "15"}, {"reduce", "7"}, {"aggregate", "15"}};
        String[][] closes = {{"count", "0"}, {"reduce", "7"}, {"aggregate", "15"}};
        kinds.forEach((kind, group) -> {
            for (String[] u : updates) {
                add(r, "window-" + kind + "-" + u[0], group, aggregations.get(u[0]), Long.parseLong(u[1]), null);
            }
            for (String[] c : closes) {
                // The retention is long, so that Java loses no window when time jumps.
                add(r, "window-" + kind + "-" + c[0] + "-close", (g, grace) -> group.apply(g, grace).emitStrategy(EmitStrategy.onWindowClose()),
                    aggregations.get(c[0]), Long.parseLong(c[1]), Duration.ofHours(1));
            }
        });
        Grouping unlimited = (g, grace) -> g.windowedBy(UnlimitedWindows.of().startOn(java.time.Instant.ofEpochMilli(30)));
        add(r, "window-unlimited-count", unlimited, aggregations.get("count"), 0, null);
        add(r, "window-unlimited-aggregate", unlimited, aggregations.get("aggregate"), 0, null);
        add(r, "window-sliding-wide", (g, grace) -> g.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(60), grace)),
            aggregations.get("aggregate"), 20, null);

        // Behind a repartition topic, and into another aggregation. Nothing is emitted on close here: how far that has come stands
        // in the metadata of its task's inputs, and Java's driver has one task for all.
        r.stores("window-regrouped", input(), b -> {
            KTable<Windowed<String>, Long> perWindow = b.<String, String>stream("in")
                .selectKey((k, v) -> v == null ? "none" : v.substring(0, 1))
                .groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)))
                .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("first"));
            perWindow.toStream()
                .map((k, v) -> org.apache.kafka.streams.KeyValue.pair(k.key() + k.window().start() % 3, Long.toString(v)))
                .groupByKey(org.apache.kafka.streams.kstream.Grouped.as("again"))
                .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(30), ms(10)))
                .reduce((a, v) -> a + "," + v, Materialized.<String, String, WindowStore<Bytes, byte[]>>as("second"))
                .toStream()
                .to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 30), Serdes.String()));
        });

        r.describe("window-names", b -> {
            KGroupedStream<String, String> g = b.<String, String>stream("in").groupByKey();
            g.windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(ms(10))).count();
            g.windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(ms(10))).emitStrategy(EmitStrategy.onWindowClose()).count(Materialized.as("sliding-close"));
            g.windowedBy(TimeWindows.ofSizeWithNoGrace(ms(10))).emitStrategy(EmitStrategy.onWindowClose()).count();
            g.windowedBy(TimeWindows.ofSizeWithNoGrace(ms(10))).emitStrategy(EmitStrategy.onWindowClose()).reduce((x, y) -> x);
            g.windowedBy(UnlimitedWindows.of()).count();
            g.windowedBy(UnlimitedWindows.of()).aggregate(() -> "", (k, v, a) -> a + v, Materialized.as("unlimited"));
            g.windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(ms(10))).reduce((x, y) -> x);
            b.<String, String>stream("other").groupBy((k, v) -> v)
                .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofHours(1), ms(5))).count();
        });
    }

    private static Inputs input() {
        return Inputs.of(220).topic("in").last("in", "a", "p", 500);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void add(Registry r, String name, Grouping group, Aggregation aggregate, long grace, Duration keep) {
        Function<KTable<Windowed<String>, ?>, Serde<?>> serde = t -> name.contains("count") || name.contains("sum")
            ? Serdes.Long() : Serdes.String();
        r.stores(name, input(), b -> {
            KTable results = aggregate.apply(group.apply(b.<String, String>stream("in").groupByKey(), ms(grace)), keep);
            results.toStream().to("out", Produced.with((Serde) WindowedSerdes.timeWindowedSerdeFrom(String.class, 10), (Serde) serde.apply(results)));
        });
    }
}
