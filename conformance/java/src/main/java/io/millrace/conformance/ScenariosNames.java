package io.millrace.conformance;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.TimeWindows;

/** Topologies of which names, descriptions and internal topics alone are compared, mostly with numbers for names. */
final class ScenariosNames implements Scenarios {
    private static final TimeWindows TEN = TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(10));

    private static KStream<String, String> in(StreamsBuilder b, String topic) {
        return b.stream(topic);
    }

    @Override
    public void register(Registry r) {
        Map<String, Consumer<StreamsBuilder>> all = Map.ofEntries(
            Map.entry("count", b -> in(b, "in").groupByKey().count().toStream().to("out")),
            Map.entry("count-serdes", b -> in(b, "in").groupByKey().count(Materialized.with(Serdes.String(), Serdes.Long())).toStream().to("out")),
            Map.entry("count-node", b -> in(b, "in").groupByKey().count(Named.as("n")).toStream(Named.as("ts")).to("out", Produced.as("end"))),
            Map.entry("reduce", b -> in(b, "in").groupByKey().reduce((x, y) -> y).toStream().to("out")),
            Map.entry("aggregate", b -> in(b, "in").groupByKey().aggregate(() -> "", (k, v, x) -> x + v).toStream().to("out")),
            Map.entry("group-by-count", b -> in(b, "in").groupBy((k, v) -> v).count().toStream().to("out")),
            Map.entry("group-by-window-count", b -> in(b, "in").groupBy((k, v) -> v).windowedBy(TEN).count(Materialized.as("st"))),
            Map.entry("window-count", b -> in(b, "in").groupByKey().windowedBy(TEN).count()),
            Map.entry("window-aggregate", b -> in(b, "in").groupByKey().windowedBy(TEN).aggregate(() -> "", (k, v, x) -> x + v)),
            Map.entry("window-reduce", b -> in(b, "in").groupByKey().windowedBy(TEN).reduce((x, y) -> y)),
            Map.entry("window-retention", b -> in(b, "in").groupByKey().windowedBy(TEN)
                .count(Materialized.<String, Long, org.apache.kafka.streams.state.WindowStore<org.apache.kafka.common.utils.Bytes, byte[]>>as("st").withRetention(Duration.ofHours(3)))),
            Map.entry("stream-table", b -> in(b, "s").join(b.table("t"), (String x, String y) -> x + y).to("out")),
            Map.entry("stream-table-rekeyed", b -> {
                KTable<String, String> t = b.table("t");
                in(b, "s").selectKey((k, v) -> v).leftJoin(t, (x, y) -> x + y).to("out");
            }),
            Map.entry("two-joins", b -> {
                KTable<String, String> t = b.table("t");
                KTable<String, String> u = b.table("u");
                KStream<String, String> s = in(b, "s").selectKey((k, v) -> v);
                s.join(t, (x, y) -> x + y).to("o1");
                s.join(u, (x, y) -> x + y, Joined.as("named")).to("o2");
            }),
            Map.entry("global", b -> {
                var g = b.<String, String>globalTable("g");
                in(b, "s").leftJoin(g, (k, v) -> v, (x, y) -> x + y).to("out");
            }),
            Map.entry("split", b -> {
                var m = in(b, "s").split().branch((k, v) -> true).branch((k, v) -> false).defaultBranch();
                new java.util.TreeMap<>(m).values().forEach(x -> x.to("o"));
            }),
            Map.entry("split-named", b -> {
                var m = in(b, "s").split(Named.as("sp-")).branch((k, v) -> true, Branched.as("x")).defaultBranch(Branched.as("d"));
                m.get("sp-x").to("o");
                m.get("sp-d").to("o2");
            }),
            Map.entry("merge", b -> in(b, "a").merge(in(b, "c"), Named.as("both")).to("o", Produced.as("end"))),
            Map.entry("repartition", b -> in(b, "a").repartition().to("o")),
            Map.entry("repartition-partitions", b -> in(b, "a").repartition(Repartitioned.<String, String>as("rr").withNumberOfPartitions(3)).to("o")),
            Map.entry("to-table", b -> in(b, "a").toTable().toStream().to("o")),
            Map.entry("to-table-rekeyed", b -> in(b, "a").selectKey((k, v) -> v).toTable(Materialized.as("rows")).toStream().to("o")),
            Map.entry("table-filter", b -> b.<String, String>table("a").filter((k, v) -> true).toStream().to("o")),
            Map.entry("table-filter-stored", b -> b.<String, String>table("a").filter((k, v) -> true, Named.as("f"), Materialized.as("fs")).toStream().to("o")),
            Map.entry("table-map-values", b -> b.<String, String>table("a", Materialized.as("rows")).mapValues(v -> v, Materialized.as("ms"))),
            Map.entry("stateless-named", b -> b.stream("a", Consumed.<String, String>as("src")).filter((k, v) -> true, Named.as("f"))
                .flatMapValues(v -> List.of(v), Named.as("fmv")).map((k, v) -> new KeyValue<>(k, v), Named.as("m"))
                .mapValues(v -> v, Named.as("mv")).selectKey((k, v) -> k, Named.as("sk")).foreach((k, v) -> { }, Named.as("fe"))),
            Map.entry("chain-of-counts", b -> in(b, "a").groupBy((k, v) -> v).count().toStream().map((k, v) -> new KeyValue<>(v, k))
                .groupByKey(Grouped.with(Serdes.Long(), Serdes.String())).count().toStream().groupByKey(Grouped.with(Serdes.Long(), Serdes.Long())).count()
                .toStream().to("o", Produced.with(Serdes.Long(), Serdes.Long()))),
            Map.entry("two-programs", b -> {
                in(b, "a").groupByKey().count(Materialized.as("c1"));
                in(b, "c").filter((k, v) -> true).to("o2");
                in(b, "d").groupBy((k, v) -> v, Grouped.as("g")).count(Materialized.as("c2"));
            }),
            Map.entry("table-join", b -> b.<String, String>table("a").join(b.<String, String>table("c"), (x, y) -> x + y).toStream().to("o")),
            Map.entry("table-join-stored", b -> b.<String, String>table("a").leftJoin(b.<String, String>table("c"), (x, y) -> x + y, Named.as("j"), Materialized.as("js")).toStream().to("o"))
        );
        r.describe("names-required", b -> in(b, "in").groupBy((k, v) -> v, Grouped.as("g")).count(Materialized.as("c")),
            Map.of("ensure.explicit.internal.resource.naming", "true"));
        all.forEach((name, declare) -> r.describe("names-" + name, declare));
    }
}
