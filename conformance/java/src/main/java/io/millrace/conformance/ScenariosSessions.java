package io.millrace.conformance;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serde;
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
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.SessionStore;

/** Aggregations by sessions. The retention is long, so that the store hides no session that the step still adds to. */
final class ScenariosSessions implements Scenarios {
    private interface Aggregation extends Function<SessionWindowedKStream<String, String>, KTable<Windowed<String>, ?>> { }

    private static Duration ms(long n) {
        return Duration.ofMillis(n);
    }

    private static <V> Materialized<String, V, SessionStore<Bytes, byte[]>> store(String name, Serde<V> value) {
        return Materialized.<String, V, SessionStore<Bytes, byte[]>>as(name).withValueSerde(value).withRetention(Duration.ofHours(1));
    }

    private static Inputs input() {
        return Inputs.of(220).topic("in").last("in", "a", "p", 500);
    }

    @Override
    public void register(Registry r) {
        Map<String, Aggregation> aggregations = new LinkedHashMap<>();
        aggregations.put("count", w -> w.count(store("results", Serdes.Long())));
        aggregations.put("sum", w -> w.aggregate(() -> 0L, (k, v, a) -> a + (v == null ? 0 : v.length()), (k, a, b) -> a + b,
            store("results", Serdes.Long())));
        aggregations.put("reduce", w -> w.reduce((a, v) -> v == null ? null : a + v, store("results", Serdes.String())));
        // A value that begins with s deletes the result.
        aggregations.put("aggregate", w -> w.aggregate(() -> "", (k, v, a) ->
            v == null ? a + "~" : v.startsWith("s") ? null : a + v.charAt(0), (k, a, b) -> a + "|" + b, store("results", Serdes.String())));

        String[][] runs = {{"count", "0"}, {"sum", "15"}, {"reduce", "7"}, {"aggregate", "15"}, {"aggregate", "0"}};
        for (String[] run : runs) {
            Aggregation aggregation = aggregations.get(run[0]);
            long grace = Long.parseLong(run[1]);
            r.stores("session-" + run[0] + "-grace-" + grace, input(), b -> results(run[0], aggregation.apply(
                b.<String, String>stream("in").groupByKey().windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(6), ms(grace))))));
            // Stores in memory hand sessions out in another order, so there is no twin of these.
            r.add("session-" + run[0] + "-grace-" + grace + "-close", input(), b -> results(run[0], aggregation.apply(
                b.<String, String>stream("in").groupByKey().windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(6), ms(grace)))
                    .emitStrategy(EmitStrategy.onWindowClose()))));
        }

        r.stores("session-regrouped", input(), b -> {
            KTable<Windowed<String>, Long> first = b.<String, String>stream("in")
                .selectKey((k, v) -> v == null ? "none" : v.substring(0, 1))
                .groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(4), ms(5)))
                .count(store("first", Serdes.Long()));
            first.toStream()
                .map((k, v) -> KeyValue.pair(k.key() + k.window().start() % 3, v == null ? "gone" : Long.toString(v)))
                .groupByKey(Grouped.as("again"))
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(8), ms(10)))
                .reduce((a, v) -> a + "," + v, store("second", Serdes.String()))
                .toStream()
                .to("out", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.String()));
        });
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void results(String aggregation, KTable results) {
        Serde serde = aggregation.equals("count") || aggregation.equals("sum") ? Serdes.Long() : Serdes.String();
        results.toStream().to("out", Produced.with((Serde) WindowedSerdes.sessionWindowedSerdeFrom(String.class), serde));
    }
}
