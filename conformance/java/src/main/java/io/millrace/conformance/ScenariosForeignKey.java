package io.millrace.conformance;

import java.util.Random;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TableJoined;

/** Joins of tables by a foreign key. */
final class ScenariosForeignKey implements Scenarios {
    /** What stands before the colon of a value; "-" is none. */
    static String foreign(String v) {
        String key = v.substring(0, v.indexOf(':'));
        return key.equals("-") ? null : key;
    }

    /** Rows that refer to one of a few rows of the other table, to one that is never there, or to none. Some come again. */
    static byte[] reference(Random r, int i) {
        String[] to = {"d1", "d2", "d3", "", "dd1", "d9", "-"};
        return Inputs.bytes(to[r.nextInt(to.length)] + ":" + (r.nextInt(3) == 0 ? "x" : Integer.toString(i)));
    }

    private static Inputs rows(int n) {
        return Inputs.of(n)
            .topic("l", t -> t.keys("p1", "p2", "p3", "1p1").values(ScenariosForeignKey::reference).nullValues(0.15).weight(2))
            .topic("r", t -> t.keys("d1", "d2", "d3", "", "dd1").nullValues(0.2));
    }

    @Override
    public void register(Registry r) {
        r.stores("foreign-key-join", rows(400), b -> {
            KTable<String, String> left = b.table("l", Materialized.as("left"));
            KTable<String, String> right = b.table("r", Materialized.as("right"));
            left.join(right, ScenariosForeignKey::foreign, (x, y) -> x + "/" + y, TableJoined.as("fj")).toStream().to("out");
        });

        r.stores("foreign-key-left-join", rows(400), b -> {
            KTable<String, String> left = b.table("l", Materialized.as("left"));
            KTable<String, String> right = b.table("r", Materialized.as("right"));
            left.leftJoin(right, ScenariosForeignKey::foreign, (x, y) -> x + "/" + y, TableJoined.as("fj")).toStream().to("out");
        });

        r.stores("foreign-key-join-kept", rows(300), b -> {
            KTable<String, String> left = b.table("l", Materialized.as("left"));
            KTable<String, String> right = b.table("r", Materialized.as("right"));
            left.leftJoin(right, ScenariosForeignKey::foreign, (x, y) -> y == null ? null : x + "/" + y, TableJoined.as("fj"),
                    Materialized.as("fj"))
                .filter((k, v) -> !v.contains("x"))
                .toStream().to("out");
        });

        r.add("foreign-key-join-numbered", rows(300), b -> {
            KTable<String, String> left = b.table("l");
            KTable<String, String> right = b.table("r");
            left.filter((k, v) -> !v.endsWith("7"))
                .join(right.mapValues(v -> v + "!", Materialized.with(Serdes.String(), Serdes.String())),
                    ScenariosForeignKey::foreign, (x, y) -> x + "/" + y)
                .toStream().to("out");
        });

        r.stores("foreign-key-join-chain", rows(400).topic("q", t -> t.keys("d1", "d2").nullValues(0.2)), b -> {
            KTable<String, String> left = b.table("l", Materialized.as("left"));
            KTable<String, String> right = b.table("r", Materialized.as("right"));
            KTable<String, String> third = b.table("q", Materialized.as("third"));
            left.join(right, ScenariosForeignKey::foreign, (x, y) -> x + "/" + y, TableJoined.as("one"), Materialized.as("one"))
                .leftJoin(third, ScenariosForeignKey::foreign, (x, y) -> x + "/" + y, TableJoined.as("two"), Materialized.as("two"))
                .toStream().to("out");
        });

        r.stores("foreign-key-join-itself", Inputs.of(300)
            .topic("l", t -> t.keys("d1", "d2", "d3", "d9", "x").values(ScenariosForeignKey::reference).nullValues(0.2)), b -> {
                KTable<String, String> left = b.table("l", Materialized.as("left"));
                left.leftJoin(left, ScenariosForeignKey::foreign, (x, y) -> x + "/" + y, TableJoined.as("boss")).toStream().to("out");
            });
    }
}
