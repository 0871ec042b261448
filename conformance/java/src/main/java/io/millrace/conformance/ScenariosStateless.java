package io.millrace.conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;

/** Steps without state. */
final class ScenariosStateless implements Scenarios {
    @SuppressWarnings("unchecked")
    private static Serde<List<String>> lists() {
        return (Serde<List<String>>) (Serde<?>) Serdes.ListSerde(ArrayList.class, Serdes.String());
    }

    @Override
    public void register(Registry r) {
        r.add("filter-not", Inputs.of(100).topic("in"), b ->
            b.<String, String>stream("in").filterNot((k, v) -> v == null || v.endsWith("3")).peek((k, v) -> { }).to("out"));

        r.add("map", Inputs.of(120).topic("in"), b ->
            b.<String, String>stream("in").map((k, v) -> new KeyValue<>(v, k)).to("out"));

        r.add("flat-map", Inputs.of(120).topic("in"), b ->
            b.<String, String>stream("in")
                .flatMap((k, v) -> {
                    List<KeyValue<String, String>> out = new ArrayList<>();
                    if (v != null) {
                        for (int i = 0; i < v.length(); i++) {
                            out.add(new KeyValue<>(v.substring(i, i + 1), i == 1 ? null : k));
                        }
                    }
                    return out;
                })
                .to("out"));

        r.add("flat-map-values", Inputs.of(120).topic("in"), b ->
            b.<String, String>stream("in")
                .flatMapValues(v -> v == null ? List.of("none") : v.startsWith("p") ? List.of() : List.of(v, v + "+"))
                .to("out"));

        r.add("map-values-of-nulls", Inputs.of(120).topic("in", t -> t.nullValues(0.4).nullKeys(0.2)), b ->
            b.<String, String>stream("in").mapValues((k, v) -> k + ":" + v).to("out"));

        r.add("split", Inputs.of(150).topic("in"), b -> {
            Map<String, KStream<String, String>> s = b.<String, String>stream("in").split(Named.as("s-"))
                .branch((k, v) -> v == null, Branched.as("null"))
                .branch((k, v) -> v.startsWith("p"), Branched.as("p"))
                .branch((k, v) -> v.compareTo("r") < 0, Branched.as("q"))
                .defaultBranch(Branched.as("rest"));
            s.get("s-null").to("nulls");
            s.get("s-p").mapValues(v -> v + "1").to("out");
            s.get("s-q").mapValues(v -> v + "2").to("out");
            s.get("s-rest").to("rest");
        });

        r.add("split-no-default", Inputs.of(150).topic("in"), b -> {
            Map<String, KStream<String, String>> s = b.<String, String>stream("in").split(Named.as("s-"))
                .branch((k, v) -> v != null && v.startsWith("p"), Branched.as("p"))
                .branch((k, v) -> v != null && v.startsWith("q"), Branched.as("q"))
                .noDefaultBranch();
            s.get("s-q").merge(s.get("s-p")).to("out");
        });

        r.add("merge", Inputs.of(150).topic("x").topic("y").topic("z"), b -> {
            KStream<String, String> x = b.stream("x");
            x.merge(b.<String, String>stream("y").mapValues(v -> v + "y"))
                .merge(b.<String, String>stream("z").filter((k, v) -> k != null))
                .to("out");
        });

        r.add("merge-with-itself", Inputs.of(80).topic("x"), b -> {
            KStream<String, String> x = b.stream("x");
            x.mapValues(v -> v + "1").merge(x).to("out");
        });

        // The order in which the children of a step get a record.
        r.add("diamond", Inputs.of(100).topic("in"), b -> {
            KStream<String, String> s = b.stream("in");
            KStream<String, String> one = s.mapValues(v -> v + "1");
            KStream<String, String> two = s.flatMapValues(v -> List.of(v + "2", v + "3"));
            s.to("out");
            two.to("out");
            one.merge(two).to("out");
        });

        // Nothing that follows from a record by way of an internal topic overtakes what is direct.
        r.add("repartition-beside-direct", Inputs.of(100).topic("in", t -> t.nullKeys(0)), b -> {
            KStream<String, String> s = b.<String, String>stream("in").flatMapValues(v -> List.of(v + "1", v + "2"));
            s.selectKey((k, v) -> v).repartition(Repartitioned.as("r")).mapValues(v -> v + "R").to("out");
            s.mapValues(v -> v + "D").to("out");
        });

        // A topic that is written to and read again.
        r.add("loop", Inputs.of(60).topic("loop", t -> t.nullValues(0)), b -> {
            KStream<String, String> s = b.stream("loop");
            s.to("out");
            s.filter((k, v) -> v.length() < 5).flatMapValues(v -> List.of(v + "x", v + "yy")).to("loop");
        });

        r.add("serdes", Inputs.of(100).topic("in", t -> t.nullValues(0.05).keys("a", "", "ü€")), b -> {
            KStream<String, String> s = b.<String, String>stream("in").filter((k, v) -> v != null);
            s.mapValues(v -> Long.parseLong(v.substring(1)) - 50).to("longs", Produced.with(Serdes.String(), Serdes.Long()));
            s.mapValues(v -> Integer.parseInt(v.substring(1)) * -7).to("ints", Produced.with(Serdes.String(), Serdes.Integer()));
            s.mapValues(v -> (short) Integer.parseInt(v.substring(1))).to("shorts", Produced.with(Serdes.String(), Serdes.Short()));
            s.mapValues(v -> Integer.parseInt(v.substring(1)) / 3.0).to("doubles", Produced.with(Serdes.String(), Serdes.Double()));
            s.mapValues(v -> Integer.parseInt(v.substring(1)) / 7f).to("floats", Produced.with(Serdes.String(), Serdes.Float()));
            s.mapValues(v -> v.startsWith("p")).to("booleans", Produced.with(Serdes.String(), Serdes.Boolean()));
            s.mapValues(v -> List.of(v, "x"))
                .to("lists", Produced.with(Serdes.String(), lists()));
        });

        // An automatic repartition, behind steps that change the key.
        r.add("map-then-count", Inputs.of(150).topic("in"), b ->
            b.<String, String>stream("in")
                .map((k, v) -> new KeyValue<>(v == null ? null : v.substring(0, 1), k))
                .filter((k, v) -> !"s".equals(k))
                .groupByKey(Grouped.as("g"))
                .count(Materialized.as("counts"))
                .toStream()
                .to("out", Produced.with(Serdes.String(), Serdes.Long())));
    }
}
