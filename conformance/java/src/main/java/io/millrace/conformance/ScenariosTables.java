package io.millrace.conformance;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;

/** Joins of tables by key, groups of a table's rows, and steps between. */
final class ScenariosTables implements Scenarios {
    private static final Serde<String> TEXT = Serdes.String();
    private static final Grouped<String, String> GROUPED = Grouped.with(TEXT, TEXT);

    private static KTable<String, String> rows(StreamsBuilder b, String topic) {
        return b.table(topic, Materialized.as(topic + "-rows"));
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> kept(String name) {
        return Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(TEXT).withValueSerde(TEXT);
    }

    private static String pair(String l, String r) {
        return l + "/" + r;
    }

    /** The end of a text that only grows. */
    private static String end(String s) {
        return s.length() <= 60 ? s : s.substring(s.length() - 60);
    }

    private static KTable<String, String> history(KGroupedTable<String, String> g, String name) {
        return g.aggregate(() -> "", (k, v, a) -> end(a + "+" + v), (k, v, a) -> end(a + "-" + v), Named.as(name), kept(name));
    }

    private static Inputs two() {
        return Inputs.of(250).topic("l", t -> t.nullValues(0.2)).topic("r", t -> t.nullValues(0.25));
    }

    private static Inputs three() {
        return Inputs.of(300).topic("l", t -> t.nullValues(0.15)).topic("r", t -> t.nullValues(0.2)).topic("x", t -> t.nullValues(0.2));
    }

    @Override
    public void register(Registry r) {
        joins(r);
        chains(r);
        groups(r);
        windows(r);
    }

    private static void joins(Registry r) {
        r.stores("table-joins", two(), b -> {
            KTable<String, String> l = rows(b, "l");
            KTable<String, String> right = rows(b, "r");
            l.join(right, ScenariosTables::pair, Named.as("inner")).toStream().to("inner-out");
            l.leftJoin(right, ScenariosTables::pair, Named.as("left")).toStream().to("left-out");
            l.outerJoin(right, ScenariosTables::pair, Named.as("outer")).toStream().to("outer-out");
        });
        r.stores("table-joins-kept", two(), b -> {
            KTable<String, String> l = rows(b, "l");
            KTable<String, String> right = rows(b, "r");
            l.join(right, ScenariosTables::pair, Named.as("inner"), kept("inner-rows")).toStream().to("inner-out");
            l.leftJoin(right, ScenariosTables::pair, Named.as("left"), kept("left-rows")).toStream().to("left-out");
            l.outerJoin(right, ScenariosTables::pair, Named.as("outer"), kept("outer-rows")).toStream().to("outer-out");
        });
        r.stores("table-join-unnamed", two(), b -> {
            KTable<String, String> l = b.table("l");
            l.filter((k, v) -> v.charAt(0) != 'p').join(b.<String, String>table("r").mapValues(v -> v + "!"), ScenariosTables::pair)
                .filterNot((k, v) -> v.startsWith("q")).toStream().to("out");
        });
        r.stores("table-join-of-streams", two(), b ->
            b.<String, String>stream("l").groupByKey().reduce((x, y) -> y, Materialized.as("latest"))
                .outerJoin(b.<String, String>stream("r").toTable(Named.as("r-table"), kept("r-rows")), ScenariosTables::pair, Named.as("join"))
                .toStream().to("out"));
        // Sides that one table is the origin of, where both hold a row at the same time.
        r.stores("table-join-derived", Inputs.of(200).topic("l", t -> t.nullValues(0.2)), b -> {
            KTable<String, String> l = rows(b, "l");
            KTable<String, String> mapped = l.mapValues(v -> v + "!");
            mapped.leftJoin(l, ScenariosTables::pair, Named.as("left")).toStream().to("left-out");
            l.outerJoin(mapped, ScenariosTables::pair, Named.as("outer")).toStream().to("outer-out");
            l.outerJoin(l.filter((k, v) -> v.charAt(0) < 'r', Named.as("few"), kept("few-rows")), ScenariosTables::pair, Named.as("kept"))
                .toStream().to("kept-out");
        });
    }

    private static void chains(Registry r) {
        String[] kinds = {"inner", "left", "outer"};
        for (String first : kinds) {
            for (String second : kinds) {
                r.add("table-join-" + first + "-" + second, three(), b -> {
                    KTable<String, String> both = join(first, rows(b, "l"), rows(b, "r"), "first");
                    join(second, both, rows(b, "x"), "second").toStream().to("out");
                });
            }
        }
        r.stores("table-join-chain-kept", three(), b ->
            rows(b, "l").leftJoin(rows(b, "r"), ScenariosTables::pair, Named.as("first"), kept("first-rows"))
                .mapValues(v -> v.toUpperCase(), Named.as("upper"), kept("upper-rows"))
                .outerJoin(rows(b, "x"), ScenariosTables::pair, Named.as("second"))
                .filter((k, v) -> v.length() > 5, Named.as("long"), kept("long-rows"))
                .toStream().to("out"));
    }

    private static KTable<String, String> join(String kind, KTable<String, String> l, KTable<String, String> r, String name) {
        return switch (kind) {
            case "inner" -> l.join(r, ScenariosTables::pair, Named.as(name));
            case "left" -> l.leftJoin(r, ScenariosTables::pair, Named.as(name));
            default -> l.outerJoin(r, ScenariosTables::pair, Named.as(name));
        };
    }

    private static KeyValue<String, String> byLetter(String k, String v) {
        return KeyValue.pair(v.substring(0, 1), v);
    }

    private static KeyValue<String, String> some(String k, String v) {
        return switch (v.charAt(0)) {
            case 'p' -> KeyValue.pair(null, v);
            case 'q' -> KeyValue.pair("q", null);
            default -> KeyValue.pair(v.substring(0, 1), k + v);
        };
    }

    private static void groups(Registry r) {
        Inputs one = Inputs.of(250).topic("l", t -> t.keys("a", "b", "c", "d", "e").nullValues(0.2));
        r.stores("table-group-count", one, b ->
            rows(b, "l").groupBy(ScenariosTables::byLetter, GROUPED).count(Materialized.as("counts"))
                .toStream().to("out", Produced.with(TEXT, Serdes.Long())));
        r.stores("table-group-aggregate", one, b ->
            history(rows(b, "l").groupBy(ScenariosTables::byLetter, GROUPED), "history").toStream().to("out"));
        r.stores("table-group-reduce", one, b ->
            rows(b, "l").groupBy(ScenariosTables::some, Grouped.with("g", TEXT, TEXT))
                .reduce((x, y) -> end(x + "+" + y), (x, y) -> y.length() % 2 == 0 ? null : end(x + "-" + y), Named.as("n"), kept("reduced"))
                .toStream().to("out"));
        r.stores("table-group-twice", one, b -> {
            KGroupedTable<String, String> g = b.<String, String>table("l").groupBy((k, v) -> KeyValue.pair("all", k + v), Grouped.with("g", TEXT, TEXT));
            g.count().toStream().to("counts", Produced.with(TEXT, Serdes.Long()));
            history(g, "history").toStream().to("out");
        });
        r.stores("table-group-of-filter", one, b ->
            history(b.<String, String>table("l").filter((k, v) -> v.charAt(0) != 'p').mapValues(v -> v + "!")
                .groupBy(ScenariosTables::byLetter, GROUPED), "history").toStream().to("out"));
        r.stores("table-group-of-kept-filter", one, b ->
            history(b.<String, String>table("l").filter((k, v) -> v.charAt(0) != 'p', kept("filtered"))
                .groupBy(ScenariosTables::byLetter, GROUPED), "history").toStream().to("out"));
        for (String kind : new String[] {"inner", "left", "outer"}) {
            r.stores("table-group-of-" + kind + "-join", two(), b ->
                history(join(kind, rows(b, "l"), rows(b, "r"), "join").groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), k + v), GROUPED), "history")
                    .toStream().to("out"));
        }
        r.stores("table-group-joined", three(), b ->
            rows(b, "l").leftJoin(rows(b, "r"), ScenariosTables::pair, Named.as("join"), kept("join-rows"))
                .groupBy((k, v) -> KeyValue.pair(k.equals("a") ? "b" : k, v), GROUPED)
                .reduce((x, y) -> end(x + "+" + y), (x, y) -> end(x + "-" + y), Materialized.as("sums"))
                .outerJoin(rows(b, "x"), ScenariosTables::pair, Named.as("second"))
                .groupBy((k, v) -> KeyValue.pair("all", k), GROUPED)
                .count(Materialized.as("counts"))
                .toStream().to("out", Produced.with(TEXT, Serdes.Long())));
        r.stores("table-group-of-aggregate", Inputs.of(200).topic("in"), b ->
            b.<String, String>stream("in").groupByKey().count(Materialized.as("counts"))
                .groupBy((k, n) -> KeyValue.pair(n % 2 == 0 ? "even" : "odd", k + n), GROUPED)
                .reduce((x, y) -> end(x + "+" + y), (x, y) -> end(x + "-" + y), Materialized.as("sums"))
                .toStream().to("out"));
    }

    private static void windows(Registry r) {
        TimeWindows ten = TimeWindows.ofSizeAndGrace(Duration.ofMillis(10), Duration.ofMillis(20));
        Serde<Windowed<String>> windowed = WindowedSerdes.timeWindowedSerdeFrom(String.class, 10);
        r.stores("table-windows-regrouped", Inputs.of(250).topic("in"), b ->
            b.<String, String>stream("in").groupByKey().windowedBy(ten).count(Materialized.as("counts"))
                .filter((k, n) -> n > 1)
                .groupBy((k, n) -> KeyValue.pair(k.key(), k.window().start() + "=" + n), GROUPED)
                .reduce((x, y) -> end(x + "+" + y), (x, y) -> end(x + "-" + y), Materialized.as("sums"))
                .toStream().to("out"));
        r.stores("table-windows-grouped-by-window", Inputs.of(250).topic("in"), b ->
            b.<String, String>stream("in").groupByKey().windowedBy(ten).count(Materialized.as("counts"))
                .groupBy((k, n) -> KeyValue.pair(k, n), Grouped.with(windowed, Serdes.Long()))
                .count(Materialized.<Windowed<String>, Long, KeyValueStore<Bytes, byte[]>>as("rows").withKeySerde(windowed))
                .toStream().to("out", Produced.with(windowed, Serdes.Long())));
        r.stores("table-windows-joined", Inputs.of(250).topic("l").topic("r"), b -> {
            KTable<Windowed<String>, Long> l = b.<String, String>stream("l").groupByKey().windowedBy(ten).count(Materialized.as("l-counts"));
            KTable<Windowed<String>, Long> right = b.<String, String>stream("r").groupByKey().windowedBy(ten).count(Materialized.as("r-counts"));
            l.filter((k, n) -> n != 2).outerJoin(right.mapValues(n -> n * 10), (x, y) -> x + "/" + y)
                .toStream().to("out", Produced.with(windowed, TEXT));
            l.join(right, (x, y) -> x + "/" + y).toStream((k, v) -> k.key()).to("keys");
        });
    }
}
