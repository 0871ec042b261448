package io.millrace.conformance;

import java.time.Duration;
import java.util.List;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;

/** Versioned tables and stores, stores that a topic fills, global stores. */
final class ScenariosVersioned implements Scenarios {
    private static <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> versioned(String name, long history) {
        return Materialized.as(Stores.persistentVersionedKeyValueStore(name, Duration.ofMillis(history)));
    }

    /**
     * A stream and the table that it is joined with: far out of order, and time jumps beyond the history. No two records share
     * a time, for a deletion in place of a version is one of the deliberate differences.
     */
    private static Inputs streamAndTable(int n) {
        return Inputs.of(n).topic("s").topic("t", t -> t.nullValues(0.2)).disorder(0.45, 60).jumps(0.05, 90).apart();
    }

    /** Ties, without deletions. */
    private static Inputs ties(int n) {
        return Inputs.of(n).topic("s").topic("t", t -> t.nullValues(0)).disorder(0.45, 60).jumps(0.05, 90).ties(0.5);
    }

    /** In order: where a step sends deletions, they are newer than what they delete. */
    private static Inputs inOrder(int n) {
        return Inputs.of(n).topic("s").topic("t", t -> t.nullValues(0.2)).disorder(0, 1).grid(0, 10).jumps(0.05, 90).apart();
    }

    private static Inputs twoTables(int n) {
        return Inputs.of(n)
            .topic("l", t -> t.keys("a", "b").nullValues(0.2))
            .topic("r", t -> t.keys("a", "b").nullValues(0.2))
            .disorder(0.45, 60).jumps(0.05, 90).apart();
    }

    private static void joinTables(StreamsBuilder b, boolean left, boolean right) {
        KTable<String, String> l = b.table("l", left ? versioned("left", 40) : Materialized.as("left"));
        KTable<String, String> r = b.table("r", right ? versioned("right", 25) : Materialized.as("right"));
        l.join(r, (x, y) -> x + "/" + y, Named.as("inner")).toStream().to("inner-out");
        l.leftJoin(r, (x, y) -> x + "/" + y, Named.as("left-join"), Materialized.as("kept")).toStream().to("left-out");
        l.outerJoin(r, (x, y) -> x + "/" + y, Named.as("outer"), Materialized.as("outer")).toStream().to("outer-out");
    }

    private static void joinForeign(StreamsBuilder b, boolean left, boolean right) {
        KTable<String, String> l = b.table("l", left ? versioned("left", 40) : Materialized.as("left"));
        KTable<String, String> r = b.table("r", right ? versioned("right", 25) : Materialized.as("right"));
        l.join(r, ScenariosForeignKey::foreign, (x, y) -> x + "/" + y, TableJoined.as("fj")).toStream().to("out");
        l.leftJoin(r, ScenariosForeignKey::foreign, (x, y) -> x + "/" + y, TableJoined.as("flj"), Materialized.as("kept")).toStream().to("left-out");
    }

    private static void reduce(StreamsBuilder b, boolean deletes) {
        KTable<String, String> t = b.<String, String>stream("t").groupByKey()
            .reduce((x, y) -> deletes && y.startsWith("s") ? null : x.length() > 12 ? y : x + y, versioned("sums", 30));
        t.toStream().to("sums-out");
        KStream<String, String> s = b.stream("s");
        s.leftJoin(t, (x, y) -> x + "/" + y, Joined.as("j")).to("out");
    }

    private static String tail(String s) {
        return s.length() > 24 ? s.substring(s.length() - 24) : s;
    }

    private static Inputs foreignRows(int n) {
        return Inputs.of(n)
            .topic("l", t -> t.keys("p1", "p2", "p3").values(ScenariosForeignKey::reference).nullValues(0.15).weight(2))
            .topic("r", t -> t.keys("d1", "d2", "d3", "").nullValues(0.2))
            .disorder(0.45, 60).jumps(0.05, 90).apart();
    }

    /** Puts and deletes, tells what the store said, and looks around in the past. */
    private static final class Historian extends ContextualProcessor<String, String, String, String> {
        private VersionedKeyValueStore<String, String> store;

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            store = context.getStateStore("st");
        }

        private static String text(VersionedRecord<String> r) {
            return r == null ? "-" : r.value() + "@" + r.timestamp(); // a typed store does not tell until when it held
        }

        @Override
        public void process(Record<String, String> r) {
            if (r.key() == null) {
                return;
            }
            long ts = r.timestamp();
            StringBuilder said = new StringBuilder();
            if (r.value() == null) {
                said.append("deleted ").append(text(store.delete(r.key(), ts)));
            } else if (r.value().endsWith("3")) {
                said.append("looked");
            } else {
                long valid = store.put(r.key(), r.value(), ts);
                said.append(valid == VersionedKeyValueStore.PUT_RETURN_CODE_NOT_PUT ? "too old"
                    : valid == VersionedKeyValueStore.PUT_RETURN_CODE_VALID_TO_UNDEFINED ? "newest" : "behind");
            }
            said.append(' ').append(text(store.get(r.key())));
            for (long back : List.of(0, 1, 7, 20, 29, 30, 31, 50)) {
                said.append(' ').append(text(store.get(r.key(), Math.max(0, ts - back))));
            }
            context().forward(r.withValue(said.toString()));
        }
    }

    /** Looks up in a store that it does not write what the record names. */
    private static final class Finder extends ContextualProcessor<String, String, String, String> {
        private org.apache.kafka.streams.state.ReadOnlyKeyValueStore<String, ?> store;
        private final String name;

        Finder(String name) {
            this.name = name;
        }

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            store = context.getStateStore(name);
        }

        private static String text(Object found) {
            return found instanceof ValueAndTimestamp<?> v ? v.value() + "@" + v.timestamp() : String.valueOf(found);
        }

        @Override
        public void process(Record<String, String> r) {
            StringBuilder said = new StringBuilder(r.key() == null ? "?" : text(store.get(r.key())));
            if (r.value() != null && r.value().contains("7")) {
                try (var it = store.all()) {
                    it.forEachRemaining(row -> said.append(' ').append(row.key).append('=').append(text(row.value)));
                }
            }
            if (r.value() != null && r.value().contains("5")) {
                try (var it = store.range("b", "d")) {
                    it.forEachRemaining(row -> said.append(' ').append(row.key).append('=').append(text(row.value)));
                }
            }
            context().forward(r.withValue(said.toString()));
        }
    }

    /** Fills a store with what it gets. */
    private static final class Filler implements Processor<String, String, Void, Void> {
        private KeyValueStore<String, String> store;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            store = context.getStateStore("st");
        }

        @Override
        public void process(Record<String, String> r) {
            if (r.key() != null) {
                store.put(r.key(), r.value());
            }
        }
    }

    /** Fills a store by the first letter of the value, with the keys that have it; a value with a 5 deletes. */
    private static final class Turner implements Processor<String, String, Void, Void> {
        private TimestampedKeyValueStore<String, String> store;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            store = context.getStateStore("st");
        }

        @Override
        public void process(Record<String, String> r) {
            if (r.value() == null) {
                store.delete("a");
                return;
            }
            String to = java.util.Map.of('p', "a", 'q', "b", 'r', "c", 's', "d").get(r.value().charAt(0));
            if (r.value().contains("5")) {
                store.delete(to);
                return;
            }
            ValueAndTimestamp<String> before = store.get(to);
            String kept = before == null || before.value().length() > 8 ? "" : before.value();
            store.put(to, ValueAndTimestamp.make(kept + r.key(), r.timestamp()));
        }
    }

    private static void globalStore(StreamsBuilder b, Consumed<String, String> consumed) {
        b.addGlobalStore(Stores.timestampedKeyValueStoreBuilder(Stores.persistentTimestampedKeyValueStore("st"), Serdes.String(), Serdes.String()),
            "t", consumed, Turner::new);
    }

    @Override
    public void register(Registry r) {
        r.stores("versioned-join", streamAndTable(400), b -> {
            KTable<String, String> t = b.table("t", versioned("rows", 30));
            KStream<String, String> s = b.stream("s");
            s.join(t, (x, y) -> x + "/" + y).to("joined");
            s.leftJoin(t, (x, y) -> x + "/" + y, Joined.as("left")).to("left-joined");
            t.toStream().to("rows-out");
        });

        r.stores("versioned-join-no-history", ties(300), b -> {
            KTable<String, String> t = b.table("t", versioned("rows", 0));
            KStream<String, String> s = b.stream("s");
            s.leftJoin(t, (x, y) -> x + "/" + y, Joined.as("left")).to("left-joined");
        });

        r.stores("versioned-join-long-history", streamAndTable(300).jumps(0.1, 100_000), b -> {
            KTable<String, String> t = b.table("t", versioned("rows", 130_000));
            KStream<String, String> s = b.stream("s");
            s.leftJoin(t, (x, y) -> x + "/" + y, Joined.as("left")).to("left-joined");
        });

        r.stores("versioned-join-through-filter", streamAndTable(300), b -> {
            KTable<String, String> t = b.table("t", versioned("rows", 30));
            KTable<String, String> view = t.filter((k, v) -> !v.startsWith("p")).mapValues(v -> v + "!");
            KStream<String, String> s = b.stream("s");
            s.leftJoin(view, (x, y) -> x + "/" + y, Joined.as("j")).to("out");
            view.toStream().to("view-out");
        });

        r.stores("versioned-joined-kept", Inputs.of(400)
            .topic("l", t -> t.nullValues(0)).topic("r", t -> t.nullValues(0)).disorder(0.45, 60).jumps(0.05, 90), b -> {
                KTable<String, String> left = b.table("l", versioned("left", 40));
                KTable<String, String> right = b.table("r", Materialized.as("right"));
                KTable<String, String> kept = left.outerJoin(right, (x, y) -> x + "/" + y, Named.as("j"), versioned("kept", 30));
                kept.toStream().to("out");
                kept.mapValues(v -> v + "!").join(right, (x, y) -> x + "/" + y, Named.as("again")).toStream().to("again-out");
            });

        r.stores("versioned-deleted-in-place", Inputs.of(300)
            .topic("s").topic("t", t -> t.nullValues(0.4)).disorder(0.45, 20).ties(0.4).jumps(0.05, 90)
            .first("t", "a", "v", 5).first("t", "a", null, 5).first("t", "a", "older", 3).first("s", "a", "x", 7), b -> {
                KTable<String, String> t = b.table("t", versioned("rows", 30));
                KStream<String, String> s = b.stream("s");
                s.leftJoin(t, (x, y) -> x + "/" + y, Joined.as("left")).to("left-joined");
            });

        r.stores("versioned-table-steps", streamAndTable(400), b -> {
            KTable<String, String> t = b.table("t", versioned("rows", 30));
            t.filter((k, v) -> v.startsWith("p")).toStream().to("filtered");
            t.filterNot((k, v) -> v.startsWith("p"), Materialized.as("plain")).toStream().to("plain-out");
            KTable<String, String> kept = t.filter((k, v) -> !v.startsWith("q"), versioned("kept", 20));
            kept.toStream().to("kept-out");
            KTable<String, String> mapped = t.mapValues(v -> v.charAt(0) + "!",
                ScenariosVersioned.<String>versioned("mapped", 50).withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
            mapped.toStream().to("mapped-out");
            KStream<String, String> s = b.stream("s");
            s.leftJoin(kept, (x, y) -> x + "/" + y, Joined.as("one")).to("one-out");
            s.leftJoin(mapped, (x, y) -> x + "/" + y, Joined.as("two")).to("two-out");
        });

        r.stores("versioned-derived-of-plain", streamAndTable(300), b -> {
            KTable<String, String> t = b.table("t", Materialized.as("rows"));
            KTable<String, String> kept = t.filter((k, v) -> !v.startsWith("q"), versioned("kept", 20));
            kept.toStream().to("kept-out");
            KStream<String, String> s = b.stream("s");
            s.leftJoin(kept, (x, y) -> x + "/" + y, Joined.as("one")).to("one-out");
        });

        r.stores("versioned-to-table", Inputs.of(300).topic("in", t -> t.nullValues(0.2)).disorder(0.45, 60).jumps(0.05, 90).apart(), b -> {
            KStream<String, String> s = b.stream("in");
            KTable<String, String> t = s.toTable(Named.as("tabled"), versioned("rows", 30));
            t.toStream().to("rows-out");
            s.mapValues(v -> v + "!").leftJoin(t, (x, y) -> x + "/" + y, Joined.as("own")).to("out");
        });

        r.stores("versioned-reduce", ties(400), b -> reduce(b, false));
        r.stores("versioned-reduce-that-deletes", inOrder(300), b -> reduce(b, true));

        r.stores("versioned-aggregate", inOrder(400), b -> {
            KTable<String, String> t = b.<String, String>stream("t").groupByKey()
                .aggregate(() -> "<", (k, v, agg) -> v.startsWith("q") ? null : agg.length() > 12 ? v : agg + v, versioned("texts", 30));
            t.toStream().to("texts-out");
            KTable<String, Long> n = b.<String, String>stream("s").groupByKey().count(versioned("counts", 30));
            n.toStream().mapValues(x -> x == null ? null : String.valueOf(x), Named.as("text")).to("counts-out");
            t.join(n, (x, y) -> x + "/" + y, Named.as("both")).toStream().to("both-out");
        });

        r.stores("versioned-tables-both", twoTables(400), b -> joinTables(b, true, true));
        r.stores("versioned-tables-left", twoTables(300), b -> joinTables(b, true, false));
        r.stores("versioned-tables-right", twoTables(300), b -> joinTables(b, false, true));

        r.stores("versioned-grouped", streamAndTable(400), b -> {
            KTable<String, String> t = b.table("t", versioned("rows", 30));
            Grouped<String, String> as = Grouped.with("g", Serdes.String(), Serdes.String());
            KGroupedTable<String, String> g = t.filter((k, v) -> !v.startsWith("s")).groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), v), as);
            g.count(Materialized.as("counts")).toStream().mapValues(String::valueOf, Named.as("text")).to("counts-out");
            g.aggregate(() -> "", (k, v, agg) -> tail(agg + "+" + v), (k, v, agg) -> tail(agg + "-" + v), Materialized.as("texts"))
                .toStream().to("texts-out");
            b.<String, String>stream("s").leftJoin(t, (x, y) -> x + "/" + y, Joined.as("j")).to("out");
        });

        r.stores("versioned-grouped-to-versions", Inputs.of(300).topic("t", t -> t.nullValues(0.2)).disorder(0.45, 60).jumps(0.05, 90), b -> {
            KTable<String, String> t = b.table("t", Materialized.as("rows"));
            Grouped<String, String> as = Grouped.with("g", Serdes.String(), Serdes.String());
            KTable<String, Long> n = t.groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), v), as).count(versioned("counts", 30));
            n.toStream().mapValues(x -> x == null ? null : String.valueOf(x), Named.as("text")).to("counts-out");
            n.groupBy((k, v) -> KeyValue.pair("all", k + v), Grouped.with("again", Serdes.String(), Serdes.String()))
                .aggregate(() -> "", (k, v, agg) -> tail(agg + "+" + v), (k, v, agg) -> tail(agg + "-" + v), Materialized.as("texts"))
                .toStream().to("texts-out");
        });

        // Java fails of a null key here.
        r.stores("versioned-join-grace", Inputs.of(300)
            .topic("s", t -> t.nullKeys(0)).topic("t", t -> t.nullValues(0.2)).disorder(0.45, 60).jumps(0.05, 90).apart(), b -> {
            KTable<String, String> t = b.table("t", versioned("rows", 30));
            KStream<String, String> s = b.stream("s");
            s.leftJoin(t, (x, y) -> x + "/" + y, Joined.<String, String, String>as("waits").withGracePeriod(Duration.ofMillis(12))).to("out");
        });

        r.stores("versioned-foreign-both", foreignRows(400), b -> joinForeign(b, true, true));
        r.stores("versioned-foreign-left", foreignRows(300), b -> joinForeign(b, true, false));
        r.stores("versioned-foreign-right", foreignRows(300), b -> joinForeign(b, false, true));

        r.stores("versioned-store", Inputs.of(300).topic("in", t -> t.keys("a", "b")).disorder(0.5, 60).jumps(0.05, 90).apart(), b -> {
            b.addStateStore(Stores.versionedKeyValueStoreBuilder(
                Stores.persistentVersionedKeyValueStore("st", Duration.ofMillis(30)), Serdes.String(), Serdes.String()));
            b.<String, String>stream("in").process(Historian::new, Named.as("p"), "st").to("out");
        });

        Inputs lookups = Inputs.of(300)
            .topic("t", t -> t.keys("a", "b", "c", "d", "e").nullValues(0.2))
            .topic("in", t -> t.keys("a", "b", "c", "d", "e"));
        r.program("read-only-store", lookups, config -> {
            Topology t = new Topology();
            t.addReadOnlyStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("st"), Serdes.String(), Serdes.String()),
                "st-updates-source", Serdes.String().deserializer(), Serdes.String().deserializer(), "t", "st-updates", Filler::new);
            t.addSource("KSTREAM-SOURCE-0000000000", "in");
            t.addProcessor("p", () -> new Finder("st"), "KSTREAM-SOURCE-0000000000");
            t.connectProcessorAndStateStores("p", "st");
            t.addSink("KSTREAM-SINK-0000000001", "out", "p");
            return t;
        }, java.util.Map.of());

        r.add("global-table-lookups", lookups, b -> {
            b.globalTable("t", Materialized.as("rows"));
            b.<String, String>stream("in").process(() -> new Finder("rows"), Named.as("p")).to("out");
        });

        r.add("global-store", lookups, b -> {
            globalStore(b, Consumed.<String, String>as("fill").withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
            b.<String, String>stream("in").process(() -> new Finder("st"), Named.as("p")).to("out");
        });

        r.add("global-store-numbered", lookups, b -> {
            b.<String, String>stream("in").process(() -> new Finder("st"), Named.as("p")).to("out");
            globalStore(b, Consumed.with(Serdes.String(), Serdes.String()));
        });

        java.util.Map<String, String> reuse = java.util.Map.of(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.REUSE_KTABLE_SOURCE_TOPICS);
        r.stores("reuse-source-topics", streamAndTable(200).topic("v"), b -> {
            KTable<String, String> t = b.table("t", Materialized.as("rows"));
            KTable<String, String> v = b.table("v", versioned("versions", 30));
            KStream<String, String> s = b.stream("s");
            s.leftJoin(t, (x, y) -> x + "/" + y, Joined.as("one")).leftJoin(v, (x, y) -> x + "/" + y, Joined.as("two")).to("out");
            t.filter((k, x) -> !x.startsWith("q"), Materialized.as("kept")).toStream().to("kept-out");
        }, reuse);
    }
}
