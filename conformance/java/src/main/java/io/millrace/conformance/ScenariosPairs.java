package io.millrace.conformance;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/** What meets in real programs: the result of one operation is the input of the next. */
final class ScenariosPairs implements Scenarios {
    private static Duration ms(long n) {
        return Duration.ofMillis(n);
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> as(String name) {
        return Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(Serdes.String()).withValueSerde(Serdes.String());
    }

    private static KTable<Windowed<String>, Long> tumbling(KStream<String, String> s) {
        return s.groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts").withKeySerde(Serdes.String()));
    }

    @Override
    public void register(Registry r) {
        Inputs two = Inputs.of(220).topic("s").topic("t", t -> t.nullValues(0.2));

        // Windowed aggregate -> regroup -> join with a stream.
        r.stores("window-regroup-join", two, b -> {
            KTable<String, Long> most = tumbling(b.stream("t")).toStream()
                .selectKey((k, n) -> k.key())
                .groupByKey(Grouped.<String, Long>as("g").withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
                .reduce(Long::max, Materialized.as("most"));
            b.<String, String>stream("s").leftJoin(most, (v, n) -> v + "/" + n, Joined.as("j")).to("out");
        });

        // Two aggregates joined as tables.
        r.stores("counts-joined", two, b -> {
            KTable<String, Long> x = b.<String, String>stream("s").groupByKey().count(Materialized.as("x"));
            KTable<String, Long> y = b.<String, String>stream("t").groupByKey().count(Materialized.as("y"));
            x.outerJoin(y, (m, n) -> m + "/" + n, Named.as("j"), as("joined")).toStream().to("out");
        });

        // A join of tables that a stream is joined with.
        r.stores("table-join-stream-join", Inputs.of(300).topic("s").topic("t", t -> t.nullValues(0.2)).topic("u", t -> t.nullValues(0.2)), b -> {
            KTable<String, String> t = b.table("t", as("t-rows"));
            KTable<String, String> u = b.table("u", as("u-rows"));
            KTable<String, String> j = t.leftJoin(u, (x, y) -> x + "+" + y, Named.as("tj"), as("joined"));
            b.<String, String>stream("s").join(j, (x, y) -> x + "/" + y, Joined.as("j")).to("out");
            j.filter((k, v) -> !v.endsWith("null")).toStream().to("whole");
        });

        // Windowed aggregate -> suppress -> regroup.
        r.stores("window-suppress-regroup", Inputs.of(220).topic("in", t -> t.keys("a", "b")).last("in", "z", "end", 200), b ->
            tumbling(b.stream("in"))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("closed"))
                .toStream()
                .selectKey((k, n) -> k.key())
                .groupByKey(Grouped.<String, Long>as("g").withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
                .reduce(Long::sum, Materialized.as("sums"))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));

        // Join -> windowed aggregate -> suppress.
        r.stores("join-window-suppress", Inputs.of(260).topic("s", t -> t.keys("a", "b").weight(2)).topic("t", t -> t.keys("a", "b").nullValues(0.2)).last("s", "a", "end", 200), b -> {
            KTable<String, String> t = b.table("t", as("rows"));
            tumbling(b.<String, String>stream("s").leftJoin(t, (x, y) -> x + "/" + y, Joined.as("j")))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("closed"))
                .toStream()
                .to("out", Produced.with(ScenariosTimeWindows.windows(10), Serdes.Long()));
        });

        // Stream -> table -> join of tables -> stream -> count.
        r.stores("to-table-join-count", two, b -> {
            KTable<String, String> x = b.<String, String>stream("s").toTable(as("x"));
            KTable<String, String> y = b.table("t", as("y"));
            x.join(y, (v, w) -> v.substring(0, 1) + w.charAt(0), Named.as("j"), as("joined"))
                .toStream()
                .filter((k, v) -> v != null)
                .groupBy((k, v) -> v, Grouped.as("g"))
                .count(Materialized.as("counts"))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long()));
        });

        // A change of the headers in one branch.
        r.add("headers-of-branches", Inputs.of(80).topic("in").headers(0.7), b -> {
            KStream<String, String> s = b.stream("in");
            s.process(Marker::new, Named.as("mark")).to("marked");
            s.to("plain");
        });

        // Late records. Java drops them.
        r.add("late-records", Inputs.of(200).topic("in", t -> t.nullValues(0)).disorder(0.4, 40), b ->
            tumbling(b.stream("in")).toStream().to("out", Produced.with(ScenariosTimeWindows.windows(10), Serdes.Long())));
    }

    private static final class Marker extends org.apache.kafka.streams.processor.api.ContextualProcessor<String, String, String, String> {
        @Override
        public void process(org.apache.kafka.streams.processor.api.Record<String, String> r) {
            r.headers().add("mark", Inputs.bytes("1"));
            context().forward(r);
        }
    }
}
