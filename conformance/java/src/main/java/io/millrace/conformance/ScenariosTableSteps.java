package io.millrace.conformance;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.state.KeyValueStore;

/** Steps of tables that need no other table. */
final class ScenariosTableSteps implements Scenarios {
    private static Inputs rows(int n) {
        return Inputs.of(n).topic("t", t -> t.nullValues(0.25).nullKeys(0.05));
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> as(String name) {
        return Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(Serdes.String()).withValueSerde(Serdes.String());
    }

    @Override
    public void register(Registry r) {
        // A table that nobody reads has no store: nulls and nothing before are sent on alike.
        r.add("table-to-stream", rows(120), b -> b.<String, String>table("t").toStream().to("out"));

        r.stores("table-stored-to-stream", rows(150), b -> b.table("t", as("rows")).toStream().to("out"));

        r.add("table-filter", rows(200), b ->
            b.<String, String>table("t").filter((k, v) -> v.startsWith("p")).toStream().to("out"));

        r.stores("table-stored-filter", rows(200), b ->
            b.table("t", as("rows")).filter((k, v) -> v.startsWith("p"), as("kept")).toStream().to("out"));

        r.stores("table-filter-stored", rows(200), b ->
            b.<String, String>table("t").filterNot((k, v) -> v.startsWith("p"), as("kept")).toStream().to("out"));

        r.stores("table-map-values", rows(200), b -> {
            KTable<String, String> t = b.table("t", as("rows"));
            t.mapValues(v -> v.substring(0, 1)).toStream().to("out");
            t.mapValues(v -> v + "!", as("mapped")).filter((k, v) -> v.length() != 3).toStream().to("stored");
        });

        r.stores("to-table", rows(150), b -> {
            KStream<String, String> s = b.stream("t");
            s.toTable(as("rows")).toStream().to("out");
        });

        r.stores("to-table-rekeyed", rows(150), b ->
            b.<String, String>stream("t")
                .selectKey((k, v) -> v == null ? k : v.substring(0, 1), Named.as("rekey"))
                .toTable(Named.as("tabled"), as("rows"))
                .filter((k, v) -> !v.endsWith("1"))
                .toStream().to("out"));

        // A join reads a table through a filter and a mapper that have no store.
        r.stores("join-through-filter", Inputs.of(250).topic("s").topic("t", t -> t.nullValues(0.2)), b -> {
            KTable<String, String> t = b.table("t", as("rows"));
            KTable<String, String> view = t.filter((k, v) -> !v.startsWith("p")).mapValues(v -> v + "!");
            b.<String, String>stream("s").leftJoin(view, (x, y) -> x + "/" + y, Joined.as("j")).to("out");
        });

        r.stores("join-through-stored-filter", Inputs.of(250).topic("s").topic("t", t -> t.nullValues(0.2)), b -> {
            KTable<String, String> view = b.<String, String>table("t").filter((k, v) -> !v.startsWith("p"), as("kept"));
            b.<String, String>stream("s").join(view, (x, y) -> x + "/" + y, Joined.as("j")).to("out");
            view.toStream().to("kept-out");
        });
    }
}
