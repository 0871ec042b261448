package io.millrace.conformance;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;

/** Joins of streams with tables and with global tables. */
final class ScenariosStreamTable implements Scenarios {
    private static Inputs both(int n) {
        return Inputs.of(n).topic("s").topic("t", t -> t.nullValues(0.2));
    }

    @Override
    public void register(Registry r) {
        r.stores("join-rekeyed", both(200), b -> {
            KTable<String, String> t = b.table("t", Materialized.as("rows"));
            b.<String, String>stream("s")
                .selectKey((k, v) -> v == null ? k : v.startsWith("p") ? null : k)
                .leftJoin(t, (x, y) -> x + "/" + y, Joined.as("j"))
                .to("out");
        });

        r.add("join-rekeyed-unnamed", both(150), b -> {
            KTable<String, String> t = b.table("t");
            KStream<String, String> s = b.<String, String>stream("s").selectKey((k, v) -> k);
            s.join(t, (x, y) -> x + "/" + y).to("out");
            s.leftJoin(t, (x, y) -> x + "\\" + y).to("left-out");
        });

        r.stores("join-to-null", both(150), b -> {
            KTable<String, String> t = b.table("t", Materialized.as("rows"));
            b.<String, String>stream("s").leftJoin(t, (x, y) -> y == null ? null : x + y, Joined.as("j"))
                .filter((k, v) -> v == null || v.length() > 4)
                .to("out");
        });

        // The table is a count of the stream that is joined: the record meets the count without itself, or with it.
        r.stores("join-own-count", Inputs.of(200).topic("in", t -> t.nullKeys(0)), b -> {
            KStream<String, String> s = b.stream("in");
            s.leftJoin(s.groupByKey().count(Materialized.as("counts")), (v, n) -> v + "/" + n, Joined.as("j")).to("out");
        });

        r.stores("join-own-table", Inputs.of(150).topic("in", t -> t.nullKeys(0)), b -> {
            KStream<String, String> s = b.stream("in");
            KTable<String, String> t = s.toTable(Materialized.as("rows"));
            s.mapValues(v -> v + "!").join(t, (x, y) -> x + "/" + y, Joined.as("j")).to("out");
        });

        r.stores("join-two-tables", Inputs.of(250).topic("s", t -> t.weight(2)).topic("t").topic("u"), b -> {
            KTable<String, String> t = b.table("t", Materialized.as("t-rows"));
            KTable<String, String> u = b.table("u", Materialized.as("u-rows"));
            b.<String, String>stream("s")
                .join(t, (x, y) -> x + "/" + y, Joined.as("one"))
                .leftJoin(u, (x, y) -> x + "/" + y, Joined.as("two"))
                .to("out");
        });

        Inputs global = Inputs.of(250).topic("s", t -> t.weight(2)).topic("g", t -> t.keys("p", "q", "r", "s").nullKeys(0).nullValues(0.2));
        r.add("global-join", global, b -> {
            GlobalKTable<String, String> g = b.globalTable("g", Materialized.as("rows"));
            b.<String, String>stream("s")
                .join(g, (k, v) -> v == null || v.startsWith("p") ? null : v.substring(0, 1), (x, y) -> x + "/" + y, Named.as("j"))
                .to("out");
        });

        r.add("global-left-join", global, b -> {
            GlobalKTable<String, String> g = b.globalTable("g");
            b.<String, String>stream("s")
                .leftJoin(g, (k, v) -> v == null || v.startsWith("p") ? null : v.substring(0, 1), (x, y) -> x + "/" + y)
                .to("out");
        });

        r.stores("joined-then-counted", both(200), b -> {
            KTable<String, String> t = b.table("t", Materialized.as("rows"));
            b.<String, String>stream("s").leftJoin(t, (x, y) -> y == null ? "none" : y.substring(0, 1), Joined.as("j"))
                .groupBy((k, v) -> v, Grouped.as("g"))
                .count(Materialized.as("counts"))
                .toStream().to("out", org.apache.kafka.streams.kstream.Produced.with(Serdes.String(), Serdes.Long()));
        });
    }
}
