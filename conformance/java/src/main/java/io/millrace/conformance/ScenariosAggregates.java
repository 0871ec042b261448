package io.millrace.conformance;

import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** Aggregates without windows. */
final class ScenariosAggregates implements Scenarios {
    @Override
    public void register(Registry r) {
        r.stores("reduce", Inputs.of(200).topic("in"), b ->
            b.<String, String>stream("in").groupByKey()
                .reduce((agg, v) -> agg.length() > 12 ? v : agg + v, Materialized.as("reduced"))
                .toStream().to("out"));

        // An aggregator that deletes, and an aggregate that begins anew afterwards.
        r.stores("aggregate-that-deletes", Inputs.of(250).topic("in"), b ->
            b.<String, String>stream("in").groupByKey()
                .aggregate(() -> "<", (k, v, agg) -> v.startsWith("s") ? null : agg + v,
                    Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("texts").withValueSerde(Serdes.String()))
                .toStream().to("out"));

        r.stores("sum", Inputs.of(200).topic("in", t -> t.longs(-5, 9)), b ->
            b.stream("in", org.apache.kafka.streams.kstream.Consumed.with(Serdes.String(), Serdes.Long())).groupByKey()
                .aggregate(() -> 0L, (k, v, agg) -> agg + v,
                    Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("sums").withValueSerde(Serdes.Long()))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));

        r.stores("group-by-count", Inputs.of(200).topic("in"), b ->
            b.<String, String>stream("in")
                .groupBy((k, v) -> v == null ? "none" : v.substring(0, 1), Grouped.as("g"))
                .count(Named.as("counting"), Materialized.as("counts"))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));

        // Names that are numbers.
        r.add("group-by-unnamed", Inputs.of(150).topic("in"), b ->
            b.<String, String>stream("in")
                .groupBy((k, v) -> v == null ? null : v.substring(0, 1))
                .reduce((x, y) -> y)
                .toStream().to("out"));

        // Several aggregates of one group share its repartition topic.
        r.stores("group-shared", Inputs.of(200).topic("in"), b -> {
            KGroupedStream<String, String> g = b.<String, String>stream("in").groupBy((k, v) -> v == null ? "q" : v.substring(0, 1), Grouped.as("g"));
            g.count(Materialized.as("c")).toStream().to("counts", Produced.with(Serdes.String(), Serdes.Long()));
            g.reduce((x, y) -> x.compareTo(y) < 0 ? y : x, Materialized.as("r")).toStream().to("largest");
        });

        r.stores("chain-of-counts", Inputs.of(200).topic("in"), b ->
            b.<String, String>stream("in").groupByKey()
                .count(Materialized.as("first"))
                .toStream()
                .map((k, n) -> new KeyValue<>(Long.toString(n % 3), k))
                .groupByKey(Grouped.as("again"))
                .count(Materialized.as("second"))
                .toStream()
                .to("out", Produced.with(Serdes.String(), Serdes.Long())));

        r.add("count-without-log", Inputs.of(100).topic("in"), b ->
            b.<String, String>stream("in").groupByKey()
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts").withLoggingDisabled().withCachingDisabled())
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));

        r.add("count-log-config", Inputs.of(60).topic("in"), b ->
            b.<String, String>stream("in").groupByKey()
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                    .withLoggingEnabled(Map.of("segment.bytes", "1000000", "cleanup.policy", "compact,delete")))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));

        // A table of aggregates is filtered and mapped without a store of its own.
        r.stores("count-filter-map", Inputs.of(200).topic("in"), b -> {
            KTable<String, Long> t = b.<String, String>stream("in").groupByKey().count(Materialized.as("counts"));
            t.filter((k, n) -> n % 3 != 0).mapValues(n -> "n" + n).toStream().to("out");
        });
    }
}
