package io.millrace.conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.TableJoined;

/** Inputs of what is decided not to be as in Kafka Streams about joins of tables. Models judge the twins. */
final class ScenariosDecidedTables implements Scenarios {
    private static KTable<String, String> rows(StreamsBuilder b, String topic) {
        return b.table(topic, Materialized.as(topic + "-rows"));
    }

    private static String pair(String x, String y) {
        return x + "/" + y;
    }

    private static KTable<String, String> ownDerived(StreamsBuilder b) {
        KTable<String, String> t = b.table("in", Materialized.as("rows"));
        return t.mapValues(v -> v.startsWith("p") ? null : v).join(t, ScenariosDecidedTables::pair, Named.as("j"));
    }

    private static String end(String s) {
        return s.length() > 60 ? s.substring(s.length() - 60) : s;
    }

    /** Several changes in one record, of rows of p, which refer to one of d, and of rows of d. */
    private static byte[] changes(Random r, int i, boolean lose) {
        List<String> all = new ArrayList<>();
        for (int n = 1 + r.nextInt(4); n > 0; n--) {
            String value = r.nextInt(3) == 0 ? "x" : Integer.toString(i);
            if (r.nextInt(3) > 0) {
                String to = lose && r.nextInt(3) == 0 ? "-" : "d" + (1 + r.nextInt(2));
                all.add("p" + (1 + r.nextInt(2)) + "=" + to + ":" + value);
            } else {
                all.add("d" + (1 + r.nextInt(2)) + "=" + (!lose && r.nextInt(2) == 0 ? "" : value));
            }
        }
        return Inputs.bytes(String.join(",", all));
    }

    private static void together(Registry r, String name, boolean lose) {
        r.add(name, Inputs.of(300).topic("in", t -> t.keys("k").values((x, i) -> changes(x, i, lose)).nullKeys(0).nullValues(0))
            .topic("tick", t -> t.keys("p1", "p2").nullKeys(0).nullValues(0)).headers(0), b -> {
            KStream<String, String> changes = b.<String, String>stream("in").flatMap((k, v) -> {
                List<KeyValue<String, String>> all = new ArrayList<>();
                for (String change : v.split(",")) {
                    String[] kv = change.split("=", -1);
                    all.add(KeyValue.pair(kv[0], kv[1].isEmpty() ? null : kv[1]));
                }
                return all;
            }, Named.as("changes"));
            KTable<String, String> l = changes.filter((k, v) -> k.startsWith("p"), Named.as("left-changes")).toTable(Named.as("left"), Materialized.as("left"));
            KTable<String, String> right = changes.filter((k, v) -> k.startsWith("d"), Named.as("right-changes")).toTable(Named.as("right"), Materialized.as("right"));
            KTable<String, String> joined = l.join(right, ScenariosForeignKey::foreign, ScenariosDecidedTables::pair, TableJoined.as("fj"), Materialized.as("fj"));
            b.<String, String>stream("tick").leftJoin(joined, ScenariosDecidedTables::pair, Joined.as("told")).to("out");
        });
    }

    @Override
    public void register(Registry r) {
        // A table joined with one derived from it.
        Inputs one = Inputs.of(200).topic("in", t -> t.nullValues(0.25)).headers(0);
        r.add("join-with-derived", one, b -> ownDerived(b).toStream().to("out"));
        r.add("join-with-derived-grouped", one, b ->
            ownDerived(b).groupBy((k, v) -> KeyValue.pair("all", v), Grouped.with("g", Serdes.String(), Serdes.String()))
                .aggregate(() -> "", (k, v, a) -> end(a + "+" + v), (k, v, a) -> end(a + "-" + v), Named.as("history"), Materialized.as("history"))
                .toStream().to("out"));
        r.add("join-with-right-again", Inputs.of(250).topic("l", t -> t.nullValues(0.2)).topic("r", t -> t.nullValues(0.3)).headers(0), b -> {
            KTable<String, String> l = rows(b, "l");
            KTable<String, String> right = rows(b, "r");
            l.join(right, ScenariosDecidedTables::pair, Named.as("one")).join(right, ScenariosDecidedTables::pair, Named.as("two")).toStream().to("out");
        });

        // Rows without a byte.
        r.add("foreign-key-empty-value", Inputs.of(250)
            .topic("l", t -> t.keys("p1", "p2", "p3").values("d1:x", "d2:x", "d1:y", "d3:y", "d9:z").nullValues(0))
            .topic("r", t -> t.keys("d1", "d2", "d3").values("", "v", "w").nullValues(0)).headers(0), b ->
            rows(b, "l").leftJoin(rows(b, "r"), ScenariosForeignKey::foreign, ScenariosDecidedTables::pair, TableJoined.as("fj")).toStream().to("out"));

        together(r, "foreign-key-lost-before-the-answer", true);
        together(r, "foreign-key-right-row-gone", false);
    }
}
